"""The launcher goes on from its snapshot: same progress, same metrics, and no old record read."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest

from coevolve.history.progress import TOPICS, Progress, progress_snapshots
from coevolve.journal.codec import decode_as, encode
from coevolve.journal.fold import fold
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.snapshots import SPAN
from coevolve.runs import starting
from coevolve.runs.drive import Run
from coevolve.runs.stop import Stop
from protocols.config import RunConfig
from protocols.control import RunPaused, Stalled, StartMeasured, StopRequested
from protocols.journal import Append, Message, Receipt, StoredRecord
from protocols.learning import PolicyVersion, StepReport
from protocols.rollouts import Rollout
from tests.driving import Shown, idle_run
from tests.evolving import signal, stepped
from tests.exporting import scored
from tests.scripted import rollout

STEPS = 8
TIMED_S = 1.0
"""Enough for a run to begin to wait for a rollout, and to note it and that all parts are up."""


class Store(LocalStore):
    """A store that remembers which step reports were read."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal)
        self.read_steps: list[int] = []

    async def scan(self, topic: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        found = await super().scan(topic, after, limit)
        if topic == "step_report":
            self.read_steps += [record.sequence for record in found]
        return found


class Stage:
    """A run's folder and journal, and launches of the run without a cluster."""

    def __init__(self, journal: Journal, config: RunConfig, folder: Path) -> None:
        self.journal = journal
        self.config = config
        self.directory = starting.create(folder, config)
        self.metrics = self.directory.metrics
        self._writes = 0

    def forget(self) -> None:
        """Go on with an empty journal."""
        self.journal.close()
        self.journal = Journal.open(self.directory.path / "other")

    async def write(self, *messages: Message) -> None:
        self._writes += 1
        receipt = Receipt(producer="test", counter=self._writes)
        self.journal.append(Append(records=tuple(map(encode, messages)), receipt=receipt)).result(9)

    async def launched(self, store: Store, shown: Shown, *later: Message) -> Run:
        """Drive the run until it ends; ``later`` is written when it has started."""
        run = await idle_run(self.config, self.directory, store, shown)
        before = await store.wait((), 0, 0.0)
        driving = asyncio.create_task(run.drive(Stop()))
        await store.wait(("rollout_scaled",), before, 20.0)
        if isinstance(later[0], Rollout):  # from then on, what the run uses is measured
            await asyncio.sleep(TIMED_S)
            await self.write(later[0])
            await asyncio.sleep(TIMED_S)
            later = later[1:]
        await self.write(*later)
        async with asyncio.timeout(20):
            await driving
        return run


@pytest.fixture
async def stage(tmp_path: Path, quickstart: RunConfig) -> AsyncIterator[Stage]:
    learner = msgspec.structs.replace(quickstart.learner, steps=STEPS)
    journal = Journal.open(tmp_path / "store")
    config = msgspec.structs.replace(quickstart, learner=learner)
    stage = Stage(journal, config, tmp_path / "run")
    yield stage
    stage.journal.close()


async def _whole(stage: Stage) -> Progress:
    whole = Progress({})
    await fold(LocalStore(stage.journal), TOPICS, whole.fold)
    return whole


async def test_a_run_goes_on_from_its_snapshot(stage: Stage):
    steps = [stepped(number, "a") for number in range(1, STEPS + 1)]
    asked = RunPaused(run_id="r"), StopRequested(run_id="r")
    first = await stage.launched(Store(stage.journal), Shown(), *steps[:4], *asked)
    assert not first.finished
    assert first.progress == await _whole(stage)
    snapshots = progress_snapshots(LocalStore(stage.journal), {})
    await snapshots.restore()
    await stage.write(*await snapshots.due(SPAN), steps[4], signal("s"))

    store, shown = Store(stage.journal), Shown()
    late = Stalled(quiet_s=1.0, waiting=()), scored(STEPS, 3)
    last = await stage.launched(store, shown, *steps[5:], *late)
    assert last.finished
    whole = await _whole(stage)
    assert last.progress == whole
    assert [each.step for each in shown.messages if isinstance(each, StepReport)] == [6, 7, 8]
    reports = await LocalStore(stage.journal).scan("step_report")
    assert set(store.read_steps) == {each.sequence for each in reports[4:]}
    lines = stage.metrics.read_text().splitlines()
    assert len(lines) == whole.lines == STEPS + 1
    assert all(f'"step": {n}' in line for n, line in enumerate(lines[:STEPS], 1))


async def test_a_stopped_and_resumed_run_counts_what_both_starts_used(stage: Stage):
    steps = [stepped(number, "a") for number in range(1, STEPS + 1)]
    asked = StopRequested(run_id="r")
    first = await stage.launched(Store(stage.journal), Shown(), rollout(), *steps[:4], asked)
    assert (first.progress.starts.number, first.progress.starts.measured) == (1, 1)
    rest = rollout(), *steps[4:], scored(STEPS, 3)
    last = await stage.launched(Store(stage.journal), Shown(), *rest)
    assert last.finished
    starts = last.progress.starts
    assert (starts.number, starts.measured) == (2, 2)
    measured = await LocalStore(stage.journal).scan("start_measured")
    seconds = [decode_as(each, StartMeasured).training_s for each in measured]
    assert len(seconds) >= 2
    total = starts.total
    assert total is not None
    assert total.training_s == pytest.approx(seconds[0] + seconds[-1])
    assert last.progress == await _whole(stage)


async def test_metrics_of_steps_that_the_journal_dropped_stay_without_a_snapshot(stage: Stage):
    steps = [stepped(number, "a") for number in range(1, STEPS + 1)]
    earlier = *steps[:2], scored(1, 2), steps[2], scored(2, 3), *steps[3:5]
    await stage.launched(Store(stage.journal), Shown(), *earlier, StopRequested(run_id="r"))
    written = stage.metrics.read_text().splitlines()
    stage.forget()
    await stage.write(scored(2, 3), *steps[3:5])
    last = await stage.launched(Store(stage.journal), Shown(), *steps[5:], scored(STEPS, 3))
    lines = stage.metrics.read_text().splitlines()
    assert lines[: len(written)] == written
    assert len(lines) == STEPS + 3 == last.progress.lines


async def test_a_run_whose_metrics_are_gone_writes_them_anew(stage: Stage):
    steps = [stepped(number, "a") for number in range(1, STEPS + 1)]
    await stage.launched(Store(stage.journal), Shown(), *steps[:4], StopRequested(run_id="r"))
    snapshots = progress_snapshots(LocalStore(stage.journal), {})
    await snapshots.restore()
    await stage.write(*await snapshots.due(SPAN), *steps[4:])
    written = stage.metrics.read_bytes()
    stage.metrics.write_bytes(written[:40])
    await stage.launched(Store(stage.journal), Shown(), scored(STEPS, 3))
    assert stage.metrics.read_bytes().startswith(written)
    assert len(stage.metrics.read_text().splitlines()) == STEPS + 1


def milestone(version: int) -> PolicyVersion:
    """Return the record of a version that a stopped learner leaves."""
    return PolicyVersion(
        version=version,
        path=f"versions/v_{version}",
        format="full",
        digest="d",
        size_bytes=1,
        kept=True,
        is_milestone=True,
    )


async def stopping(stage: Stage, *later: Message) -> tuple[Run, float]:
    """Stop a run at version 3, then write ``later``; return it, and how long it went on."""
    run = await idle_run(stage.config, stage.directory, LocalStore(stage.journal), Shown())
    stop = Stop()
    driving = asyncio.create_task(run.drive(stop))
    await run.store.wait(("rollout_scaled",), 0, 20.0)
    await stage.write(*(stepped(number, "a") for number in (1, 2, 3)), scored(0, 0), milestone(3))
    while run.progress.step < 3:  # noqa: ASYNC110 - the run folds on its own
        await asyncio.sleep(0.1)
    stop.set()
    while not stop.scoring_s > 0:  # noqa: ASYNC110 - the same
        await asyncio.sleep(0.1)
    began = time.monotonic()
    assert not driving.done()
    await stage.write(*later)
    if not later:
        stop.set()
    async with asyncio.timeout(20):
        await driving
    return run, time.monotonic() - began


async def test_a_stopped_run_ends_when_its_newest_version_is_scored(stage: Stage):
    run, _ = await stopping(stage, scored(3, 2))
    assert sorted(run.progress.evaluations) == [0, 3]
    assert not run.finished


async def test_a_second_request_to_stop_skips_the_scoring(stage: Stage):
    run, took_s = await stopping(stage)
    assert sorted(run.progress.evaluations) == [0]
    assert took_s < 10
    asked, took_s = await stopping(stage, StopRequested(run_id="r"))
    assert sorted(asked.progress.evaluations) == [0]
    assert took_s < 10


async def test_a_stopped_run_without_time_to_score_or_a_trained_version_ends_at_once(stage: Stage):
    for version, at_stop_s in ((0, 300.0), (3, 0.0)):
        evaluator = msgspec.structs.replace(stage.config.evaluator, at_stop_s=at_stop_s)
        config = msgspec.structs.replace(stage.config, evaluator=evaluator)
        run = await idle_run(config, stage.directory, LocalStore(stage.journal), Shown())
        await stage.write(milestone(version))
        stop = Stop()
        stop.set()
        async with asyncio.timeout(10):
            await run.drive(stop)
        assert not run.progress.evaluations
