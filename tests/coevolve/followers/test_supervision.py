"""Followers are told of news and end with the run; those that fail cost the run nothing."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from coevolve.followers.packages import check_tracker
from coevolve.followers.said import folder_of
from coevolve.followers.supervision import environment, followers
from coevolve.history.degraded import Degraded
from coevolve.journal.codec import decode_as
from coevolve.journal.local_store import LocalStore
from protocols.config import RunConfig
from protocols.control import FollowersFail, RunResumed
from protocols.errors import DependencyError
from protocols.followers_config import TrackersConfig
from tests.following import FollowedFolder, taken

NOTING, UNREACHABLE, HANGING = (
    f"tests.own_trackers:{each}" for each in ("Noting", "Unreachable", "Hanging")
)


async def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds() and time.monotonic() < deadline:  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(0.05)
    assert holds()


async def test_a_tracker_that_fails_or_hangs_disturbs_no_other(
    tmp_path: Path, quickstart: RunConfig
):
    trackers = {"use": [NOTING, UNREACHABLE, HANGING]}
    run = FollowedFolder(tmp_path / "run", quickstart, trackers=trackers)
    store, notes = LocalStore(run.journal), folder_of(run.path, NOTING) / "points"
    run.write(taken(1))
    async with followers(run.config, run.path, (), finish_s=3.0) as following:
        keeping = asyncio.create_task(following.run(store))
        await store.wait(("followers_fail",), 0, 30.0)
        await until(lambda: notes.exists() and notes.read_text() == "1 1\n")
        run.write(taken(2))
        await until(lambda: notes.read_text() == "1 1\n2 2\n")
        keeping.cancel()
        run.write(taken(3))
        run.directory.report.write_text("report")
    assert notes.read_text() == "1 1\n2 2\n3 3\nreport\n"
    here = psutil.Process().children(recursive=True)
    assert not [each for each in here if "coevolve.followers" in each.cmdline()]
    failed = decode_as((await store.scan("followers_fail"))[-1], FollowersFail)
    assert failed.causes[UNREACHABLE] == "ConnectionError: no network for followed"
    degraded = Degraded()
    degraded.fold(failed)
    assert f"{UNREACHABLE} fails" in degraded.lines()[0]
    degraded.fold(RunResumed(run_id="r", config=""))
    assert not degraded.lines()


def test_offline_trackers_find_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRACKIO_SPACE_ID", "someone/space")
    monkeypatch.setenv("MODEL_KEY", "secret")
    online = environment(TrackersConfig(), tmp_path, ("MODEL_KEY",))
    assert online["TRACKIO_SPACE_ID"] == "someone/space"
    assert "MODEL_KEY" not in online
    offline = environment(TrackersConfig(offline=True), tmp_path, ())
    assert "TRACKIO_SPACE_ID" not in offline
    assert (offline["WANDB_MODE"], offline["HF_HUB_OFFLINE"]) == ("offline", "1")
    assert offline["MLFLOW_DISABLE_TELEMETRY"] == "true"


def test_a_tracker_that_cannot_be_imported_is_refused_before_the_run():
    with pytest.raises(DependencyError, match=r"names no module tests\.no_such"):
        check_tracker("tests.no_such:Tracker")
    check_tracker(NOTING)
