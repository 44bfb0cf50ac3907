"""A scrape has the run's present numbers, and the shipped files ask for no others."""

import asyncio
import http.client
import json
import re
import socket
import threading
import urllib.request
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import cast

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from coevolve.config.load import load_config
from coevolve.followers.prometheus import NAME, Number, serve
from coevolve.journal.local_store import LocalStore
from coevolve.runs.drive import Companion, Run
from coevolve.runs.stop import Stop
from protocols.config import RunConfig
from protocols.control import CopyFailed, DeadLetter, FollowersFail, PartFailed, PartsRest
from protocols.followers_config import PrometheusConfig
from protocols.learning import GroupDiscarded, OldVersionServed, WeightSyncAlarm
from tests.driving import Shown, idle_run
from tests.evolving import signal
from tests.following import FollowedFolder, scored, taken

MONITORING = Path(__file__).parents[3] / "configs/monitoring"

FAILURES = (
    PartFailed(part="learner", reason="killed"),
    PartsRest(causes={"signals": "it failed"}),
    FollowersFail(causes={"wandb": "no network"}),
    DeadLetter(
        consumer="rollout", sequence=1, unit="a request", subject="", attempts=3, reason="boom"
    ),
    GroupDiscarded(
        group_id="g",
        group=0,
        task_id="t",
        reason="stale",
        successes=1,
        rollouts=2,
        groups_consumed=1,
    ),
    WeightSyncAlarm(
        engine="rollout-0", version=2, reason=OldVersionServed(served=1, evidence="digest")
    ),
    CopyFailed(reason="no disk"),
)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def scraped(port: int) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the values by name and by the values of their labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


async def driven(
    run: FollowedFolder, act: Callable[[LocalStore], Awaitable[object]], *beside: Companion
) -> None:
    """Drive the run with parts that do nothing; stop it once ``act`` has been awaited."""
    store = LocalStore(run.journal)
    made = await idle_run(run.config, run.directory, store, Shown())
    stop = Stop()
    driving = asyncio.create_task(made.drive(stop, *beside))
    await act(store)
    stop.set()
    await driving


async def test_a_scrape_has_what_an_alert_needs(tmp_path: Path, quickstart: RunConfig):
    port = free_port()
    prometheus = msgspec.to_builtins(PrometheusConfig(port=port))
    run = FollowedFolder(tmp_path / "run", quickstart, prometheus=prometheus)
    said: list[tuple[str, str]] = []

    async def act(store: LocalStore) -> None:
        run.write(taken(1), scored(1, 1), taken(2), scored(2, 3), signal("s"), *FAILURES)
        run.write(*(each for each in FAILURES if isinstance(each, GroupDiscarded)))
        found: dict[str, dict[tuple[str, ...], float]] = {}
        while not found.get("coevolve_dead_letters", {}).get(()):
            await store.wait((), 10**9, 0.1)
            if said:
                found = await asyncio.to_thread(scraped, port)
        check(found)

    serving = partial(serve, run.config, lambda *each: said.append(each))
    await driven(run, act, Companion("prometheus", serving))
    assert said == [(NAME, "")]
    assert not [each for each in threading.enumerate() if "serve_forever" in each.name]


def check(found: dict[str, dict[tuple[str, ...], float]]) -> None:
    assert found["coevolve_step"] == {(): 2.0}
    assert found["coevolve_step_metric"]["critic/rewards/mean",] == 1.0
    assert found["coevolve_score_ratio"]["success", "all"] == 0.75
    assert 0.1 < found["coevolve_score_std_error_ratio"]["success", "all"] < 0.3
    assert found["coevolve_scored_version"] == {(): 2.0}
    assert found["coevolve_paused"] == {(): 0.0}
    assert found["coevolve_groups_discarded_total"] == {("stale",): 2.0}
    assert found["coevolve_failing"] == {("signals",): 1.0, ("wandb",): 1.0}
    assert found["coevolve_weight_sync_alarm"] == {(): 1.0}
    assert found["coevolve_part_restarts_total"] == {("learner",): 1.0}
    assert found["coevolve_part_up"] == {("rollout-0",): 1.0, ("learner",): 1.0}
    assert found["coevolve_last_progress_timestamp_seconds"].keys() == {
        ("run_started",),
        ("step_report",),
        ("evaluation",),
    }
    assert not asked_for() - found.keys() - {"coevolve_queue_depth"}


def asked_for() -> set[str]:
    """Return the names that the dashboard and the alerts ask for."""
    texts = [path.read_text() for path in sorted(MONITORING.iterdir())]
    assert len(texts) == 3
    json.loads((MONITORING / "grafana.json").read_text())
    return {name for text in texts for name in re.findall(r"\bcoevolve_\w+", text)}


async def test_a_run_that_hangs_or_errs_shows_its_last_numbers(
    quickstart: RunConfig, monkeypatch: pytest.MonkeyPatch
):
    asks = 0
    idle = asyncio.Event()
    mood = "well"

    async def numbers(config: RunConfig, run: Run) -> list[Number]:
        nonlocal asks
        asks += 1
        idle.clear()
        try:
            if mood == "hangs":
                await asyncio.Event().wait()
            if mood == "errs":
                raise KeyError("a fault")
        finally:
            asks -= 1
            if not asks:
                idle.set()
        return [Number("coevolve_step", "Steps.", 7.0)]

    async def scrape() -> None:
        found = await asyncio.to_thread(scraped, port)
        assert found["coevolve_step"] == {(): 7.0}

    monkeypatch.setattr("coevolve.followers.prometheus.numbers_of", numbers)
    monkeypatch.setattr("coevolve.followers.prometheus.ANSWER_S", 0.5)
    port = free_port()
    config = msgspec.structs.replace(quickstart, prometheus=PrometheusConfig(port=port))
    serving = asyncio.create_task(serve(config, lambda *_: None, cast("Run", None)))
    await asyncio.sleep(0)
    await scrape()
    mood = "hangs"
    await asyncio.gather(*(scrape() for _ in range(3)))
    await scrape()
    async with asyncio.timeout(10.0):
        await idle.wait()
    mood = "errs"
    await scrape()
    serving.cancel()
    await asyncio.wait([serving])


def asked(port: int, host: str) -> tuple[int, str]:
    """Return the answer to a request with a Host header."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest("GET", "/metrics", skip_host=True)
    if host:
        connection.putheader("Host", host)
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


async def test_a_name_that_another_site_gave_this_machine_gets_no_number(
    tmp_path: Path, quickstart: RunConfig
):
    port = free_port()
    prometheus = msgspec.to_builtins(PrometheusConfig(port=port))
    run = FollowedFolder(tmp_path / "run", quickstart, prometheus=prometheus)
    foreign = ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil:{port}", "127.0.0.1", "")
    found: dict[str, tuple[int, str]] = {}
    up = asyncio.Event()

    async def act(store: LocalStore) -> None:
        await up.wait()
        for host in (*foreign, f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"):
            found[host] = await asyncio.to_thread(asked, port, host)

    serving = partial(serve, run.config, lambda *_: up.set())
    await driven(run, act, Companion("prometheus", serving))
    for host, (status, text) in found.items():
        assert status == (421 if host in foreign else 200), host
        assert ("coevolve_" in text) == (host not in foreign)


async def test_an_address_that_is_taken_costs_the_run_nothing(
    tmp_path: Path, quickstart: RunConfig
):
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        prometheus = msgspec.to_builtins(PrometheusConfig(port=port))
        run = FollowedFolder(tmp_path / "run", quickstart, prometheus=prometheus)
        failed = asyncio.Event()
        said: list[str] = []

        def say(name: str, failure: str) -> None:
            said.append(f"{name} {failure}")
            failed.set()

        await driven(
            run,
            lambda store: failed.wait(),
            Companion("prometheus", partial(serve, run.config, say)),
        )
    assert said == [f"prometheus cannot listen on 127.0.0.1:{port}: Address already in use"]


def test_a_run_serves_nothing_unless_it_is_told(quickstart: RunConfig):
    assert not quickstart.prometheus.port
    assert load_config("quickstart", ["prometheus.port=9464"]).prometheus.host == "127.0.0.1"
