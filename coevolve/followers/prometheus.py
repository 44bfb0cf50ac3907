"""Serves a run's numbers at `/metrics`, in Prometheus's format, from the launcher's process.

Each request gets the run's present state. If the launcher raises an error, or does not answer
within `ANSWER_S`, it gets the last one, whose ``coevolve_last_progress_timestamp_seconds`` then
stands still.
"""

import asyncio
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import structlog
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from coevolve.history.progress import Progress
from coevolve.journal.codec import topics_of
from coevolve.parts.pausing import is_paused
from coevolve.runs.drive import Run
from protocols.config import RunConfig
from protocols.control import PartStatus, RunResumed, RunStarted
from protocols.journal import JournalStatistics
from protocols.learning import Evaluation, StepReport
from protocols.rollouts import Rollout

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


NS_PER_S = 1e9

PROGRESS = topics_of(RunStarted, RunResumed, Rollout, StepReport, Evaluation)
"""Topics whose records are the run's progress. A start is progress, so that a run that hangs before
its first rollout is noticed, and a resumed one has time."""


@dataclass(frozen=True)
class Number:
    """One number."""

    name: str
    about: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    counts: bool = False
    """Whether it only grows, until the run or its part starts again."""


async def numbers_of(config: RunConfig, run: Run) -> Sequence[Number]:
    """Return the run's present numbers. Raises what its store raises."""
    statuses, statistics, paused = await asyncio.gather(
        run.statuses(), run.store.statistics(), is_paused(run.store)
    )
    newest = {topic: await run.reader.last(topic) for topic in PROGRESS}
    times_s = {topic: last.time_ns / NS_PER_S for topic, last in newest.items() if last is not None}
    about = "Unix time of the newest start, rollout, step or evaluation."
    labels = {"run": config.name, "arm": config.arm, "environment": config.uses}
    return [
        Number("coevolve_run", "The run; always 1.", 1, labels),
        Number("coevolve_paused", "Whether the run is paused.", paused),
        *_each("coevolve_last_progress_timestamp_seconds", about, "kind", times_s),
        *_of_progress(config, run.progress),
        *_of_failures(run.progress),
        *_of_parts(statuses),
        *_of_journal(statistics),
    ]


def _each(
    name: str, about: str, label: str, values: Mapping[str, float], *, counts: bool = False
) -> Iterator[Number]:
    """Yield a number for each value of one label."""
    for key, value in values.items():
        yield Number(name, about, value, {label: key}, counts)


def _of_progress(config: RunConfig, progress: Progress) -> Iterator[Number]:
    yield Number("coevolve_step", "Steps that are taken.", progress.step)
    yield Number("coevolve_steps", "Steps that the run will take.", config.learner.steps)
    about = "A metric of the newest step; `coevolve explain NAME` says what it means."
    yield from _each("coevolve_step_metric", about, "name", progress.metrics)
    for measure, scores in progress.tables.items():
        for label, score in scores[max(scores)].items() if scores else ():
            labels = {"measure": measure, "tasks": label}
            about = "Mean score of the newest scored version on its tasks, by measure."
            yield Number("coevolve_score_ratio", about, score.mean, labels)
            about = "Standard error of coevolve_score_ratio, over the choice of tasks."
            yield Number("coevolve_score_std_error_ratio", about, score.std_error, labels)
    if progress.evaluations:
        about = "The newest policy version that was scored."
        yield Number("coevolve_scored_version", about, max(progress.evaluations))
    about = "Signals, settled signals and verdicts, by the names in metrics.jsonl."
    yield from _each("coevolve_evolution", about, "name", progress.evolution, counts=True)


def _of_failures(progress: Progress) -> Iterator[Number]:
    degraded = progress.degraded
    alarm = progress.deliveries.alarm is not None
    about = "Whether an engine serves other weights than those published, which stops the training."
    yield Number("coevolve_weight_sync_alarm", about, alarm)
    yield Number("coevolve_dead_letters", "Units of work that were given up.", degraded.letters)
    models = {"model": degraded.model, "reader": degraded.reader}
    failing = [*degraded.parts, *degraded.followers]
    failing += [name for name, resting in models.items() if resting is not None]
    about = "An optional part, a model of synthesis or a tracker that fails; else absent."
    yield from _each("coevolve_failing", about, "what", dict.fromkeys(failing, 1))
    about = "Restarts of a part."
    yield from _each("coevolve_part_restarts", about, "part", progress.restarts, counts=True)
    about = "Groups that no step trains on."
    yield from _each("coevolve_groups_discarded", about, "reason", progress.discarded, counts=True)


def _of_parts(statuses: Sequence[PartStatus]) -> Iterator[Number]:
    for status in statuses:
        labels = {"part": status.part}
        yield Number(
            "coevolve_part_up", "Whether the part answers.", status.pid is not None, labels
        )
        if status.pid is None:
            continue
        for name, about, value, counts in (
            ("memory_bytes", "Resident memory of its process.", status.memory_bytes, False),
            ("mailbox", "Records that the part took and has not finished.", status.mailbox, False),
            ("same_seconds", "Seconds since what it waits for changed.", status.since_s, False),
            (
                "policy_version",
                "The version it works with; -1 if none.",
                status.policy_version,
                False,
            ),
            ("finished", "Records that the part has finished.", status.done, True),
            ("cpu_seconds", "CPU seconds of its process, without children.", status.cpu_s, True),
        ):
            yield Number(f"coevolve_part_{name}", about, value, labels, counts)


def _of_journal(statistics: JournalStatistics) -> Iterator[Number]:
    about = "Records that wait for a part and that nobody works on."
    yield from _each("coevolve_queue_depth", about, "consumer", statistics.backlog)
    about = "Records in the journal, which drops the oldest rollouts."
    yield from _each("coevolve_journal_records", about, "topic", statistics.topics)
    yield Number("coevolve_journal_bytes", "Size of the journal.", statistics.size_bytes)


ANSWER_S = 10.0
AGAIN_S = 30.0
"""Pause before an address that is taken is tried again."""

NAME = "prometheus"

NAMES = ("127.0.0.1", "[::1]", "localhost")
"""How a request then names this machine."""

log = structlog.get_logger()


async def serve(config: RunConfig, say: Callable[[str, str], None], run: Run) -> None:
    """Serve until cancelled. ``say`` gets `NAME` and why it cannot, or an empty text."""
    host, port = config.prometheus.host, config.prometheus.port
    registry = CollectorRegistry()
    while True:
        try:
            server, thread = start_http_server(port, addr=host, registry=registry)
            break
        except OSError as error:
            say(NAME, f"cannot listen on {host}:{port}: {error.strerror}")
            await asyncio.sleep(AGAIN_S)
    if ip_address(str(server.server_address[0])).is_loopback:
        names = frozenset(f"{name}:{port}" for name in (host, *NAMES))
        app = server.get_app()
        assert app is not None, "prometheus_client has set one"
        server.set_app(_only_for(names, app))
    # Only now, because the server answers already.
    registry.register(_Collected(partial(numbers_of, config, run), asyncio.get_running_loop()))
    say(NAME, "")
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.to_thread(server.shutdown)
        thread.join()
        server.server_close()


def _only_for(names: Collection[str], app: "WSGIApplication") -> "WSGIApplication":
    """Return ``app`` for requests whose Host header is one of ``names``; others get no number."""

    def answer(environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        if environ.get("HTTP_HOST", "") in names:
            return app(environ, start)
        start("421 Misdirected Request", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"Ask for {min(names)}.\n".encode()]

    return answer


Ask = Callable[[], Coroutine[Any, Any, Sequence[Number]]]


class _Collected(Collector):
    """Asks the run's event loop from the server's threads."""

    def __init__(self, ask: Ask, loop: asyncio.AbstractEventLoop) -> None:
        self._ask = ask
        self._loop = loop
        self._last: Sequence[Number] = ()
        self._asked: Future[Sequence[Number]] | None = None
        self._asking = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        """Yield the run's metrics."""
        self._look()
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for each in self._last:
            if each.name not in families:
                family = CounterMetricFamily if each.counts else GaugeMetricFamily
                families[each.name] = family(each.name, each.about, labels=tuple(each.labels))
            families[each.name].add_metric(tuple(each.labels.values()), each.value)
        yield from families.values()

    def _look(self) -> None:
        """Take up the present state, if it can be had in time."""
        try:
            asked = self._one_ask()
            try:
                self._last = asked.result(ANSWER_S)
            finally:
                asked.cancel()
        except Exception as error:  # noqa: BLE001 - the boundary round the run's own numbers
            log.warning("no_present_numbers", reason=f"{type(error).__name__}: {error}")

    def _one_ask(self) -> "Future[Sequence[Number]]":
        """Return the ask in flight, or a new one. Raises RuntimeError if the loop has ended."""
        with self._asking:
            if self._asked is None or self._asked.done():
                ask = self._ask()
                try:
                    self._asked = asyncio.run_coroutine_threadsafe(ask, self._loop)
                except RuntimeError:
                    ask.close()
                    raise
            return self._asked

    def describe(self) -> Iterable[Metric]:
        """Return nothing: what there is depends on the run."""
        return ()
