"""Follows a run's journal for one tracker."""

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from coevolve.base.in_turn import in_turn
from coevolve.base.visible import visible
from coevolve.followers.interface import Artifact, Point, Table, Tracker
from coevolve.history.directory import RunDirectory
from coevolve.history.metrics_file import first_left, line_of
from coevolve.history.progress import TOPICS as PROGRESS_TOPICS
from coevolve.history.progress import Progress, progress_snapshots
from coevolve.journal.codec import decode, decode_as, topics_of
from coevolve.journal.fold import fold_records
from protocols.errors import JournalError
from protocols.followers_config import TrackersConfig
from protocols.interfaces import Reader
from protocols.journal import Message, StoredRecord
from protocols.learning import Checkpoint, Evaluation, PolicyVersion, StepReport, TrainedGroup
from protocols.rollouts import Rollout
from protocols.tasks import Synthesized, Task

TOPICS = tuple(dict.fromkeys((*PROGRESS_TOPICS, *topics_of(Checkpoint, PolicyVersion, Task))))

NS_PER_S = 1e9


COLUMNS = (
    *("task_id", "group_id", "index", "reward", "succeeded", "turns_passed", "turns_total"),
    *("ended", "version", "tokens", "actions"),
)

MOST_CHARS = 4000
"""Maximum characters of a rollout's actions."""


def sample(groups: Sequence[TrainedGroup], count: int) -> list[int]:
    """Return sequences of ``count`` rollouts: the first of each group, then the second, ..."""
    return list(islice(in_turn(*(group.sequences for group in groups)), count))


async def rollout_table(reader: Reader, step: int, sequences: Sequence[int]) -> Table:
    """Return the table of these rollouts, without those that retention has removed."""
    rows = [row for each in sequences for row in await _rows(reader, each)]
    return Table(step=step, columns=COLUMNS, rows=rows)


async def _rows(reader: Reader, sequence: int) -> list[Sequence[str | int | float | bool]]:
    try:
        (record,) = await reader.read((sequence,))
    except JournalError:
        return []
    rollout = decode_as(record, Rollout)
    actions = "\n".join(f"{each.text}\n-> {each.result}" for each in rollout.actions)
    return [
        (
            *(rollout.task_id, rollout.group_id, rollout.index, rollout.reward),
            *(rollout.succeeded, rollout.turns_passed, rollout.turns_total, rollout.ended),
            *(rollout.version_max, rollout.token_count, visible(actions)[:MOST_CHARS]),
        )
    ]


class _Sample(NamedTuple):
    """Rollouts that a table will have."""

    step: int
    sequences: Sequence[int]
    number: int


_Due = Point | _Sample | Artifact | StepReport | PolicyVersion | Task


class Tracking:
    """Sends what a journal says to a tracker, from the first point that it lacks."""

    def __init__(
        self,
        tracker: Tracker,
        reader: Reader,
        *,
        run: Path,
        labels: Mapping[str, Sequence[str]],
        unearned: int = 0,
        settings: TrackersConfig,
    ) -> None:
        """``run`` is the run's folder; ``labels`` and ``unearned`` as in `Progress`."""
        self._tracker = tracker
        self._reader = reader
        self._run = run
        self._settings = settings
        self._snapshots = progress_snapshots(reader, labels, unearned)
        self._progress: Progress | None = None
        self._through = 0
        self._reached = 0
        self._metrics = RunDirectory(run).metrics
        self._first_step = 0
        """The first step that the journal has if it dropped some; what is before has no points."""

        self._groups: tuple[int, Sequence[TrainedGroup]] = (0, ())
        self._due: list[_Due] = []

    async def catch_up(self) -> None:
        """Send everything that is new. Raises what the tracker raises."""
        if self._progress is None:
            await self._open()
        self._through = await fold_records(self._reader, TOPICS, self._take, self._through)
        due, self._due = self._due, []
        for each in due:
            await self._send(each)
        self._tracker.flush()

    def finish(self, report: Path | None) -> None:
        """Send the report, if there is one, and close the tracker.

        None: the run's launcher has died.
        """
        if report is not None and report.is_file():
            step = self._progress.step if self._progress else 0
            self._tracker.write_artifact(Artifact(name="report", step=step, path=report))
        self._tracker.close(finished=report is not None)

    async def _send(self, due: _Due) -> None:
        match due:
            case Point():
                self._tracker.write(due)
            case _Sample(step=step, sequences=sequences, number=number):
                table = await rollout_table(self._reader, step, sequences)
                if table.rows:
                    self._tracker.write_table(table, number)
            case Artifact():
                self._tracker.write_artifact(due)
            case StepReport():
                self._tracker.on_step(due)
            case PolicyVersion():
                self._tracker.on_version(due)
            case Task():
                self._tracker.on_task(due)

    async def _open(self) -> None:
        """Take up a snapshot of the progress if the tracker has all of its points."""
        self._reached = self._tracker.reached()
        progress, through = await self._snapshots.restore()
        if progress.lines >= self._reached:  # what goes with its last point may be missing
            progress, through = self._snapshots.new(), 0
            self._first_step, progress.lines = await first_left(self._reader, self._metrics)
        self._progress, self._through = progress, through

    def _take(self, record: StoredRecord) -> None:
        assert self._progress is not None
        message = decode(record)
        self._progress.fold(message)
        line = line_of(message, self._progress)
        if line is not None and self._progress.step < self._first_step:
            self._progress.lines -= 1
            return
        number = self._progress.lines
        if isinstance(message, StepReport) and message.groups:
            self._groups = message.step, message.groups
        if number < self._reached or (line is not None and number == self._reached):
            return
        self._due += self._others(message, number)
        if line is not None:
            step = int(line.pop("step"))
            time_s = record.time_ns / NS_PER_S
            self._due.append(Point(number=number, step=step, time_s=time_s, metrics=line))

    def _others(self, message: Message, number: int) -> list[_Due]:
        """Return what a tracker gets of a record besides its point."""
        match message:
            case StepReport() | PolicyVersion() | Task(origin=Synthesized()):
                return [message]
            case Evaluation() if self._settings.rollouts and self._groups[1]:
                step, groups = self._groups
                return [_Sample(step, sample(groups, self._settings.rollouts), number)]
            case Checkpoint(kept=True, step=step, path=path) if self._settings.checkpoints:
                folder = self._run / path
                there = folder.is_dir()
                return [Artifact(name="checkpoint", step=step, path=folder)] if there else []
            case _:
                return []
