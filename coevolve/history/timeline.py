"""The timeline of a run: its steps, its scores and its events."""

import sys
from array import array
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from coevolve.delivery.alarms import sentence
from coevolve.history.score import Movement, movement
from coevolve.history.series import DRAWN
from coevolve.history.teaching import sentence as regression
from coevolve.history.weight_sync import scale_sentence
from coevolve.journal.codec import topics_of
from protocols.control import (
    CopyFailed,
    PartFailed,
    RolloutScaled,
    RunContinued,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    ScaleRefused,
    Stalled,
    StopRequested,
)
from protocols.evolution import SwapRefused, SynthesizerSwapped
from protocols.journal import Message
from protocols.learning import (
    Evaluation,
    GroupDiscarded,
    PolicyRegressed,
    StepReport,
    TrainedGroup,
    Use,
    WeightSyncAlarm,
)

_PLAIN: dict[type[Message], str] = {
    RunStarted: "started",
    RunResumed: "resumed",
    StopRequested: "stop requested",
    RunPaused: "paused",
    RunContinued: "continued",
    RunFinished: "finished",
}

_REFUSED: dict[type[Message], str] = {
    CopyFailed: "the run was not copied",
    ScaleRefused: "another number of rollout engines was refused",
    SwapRefused: "a new synthesizer was refused",
}

TOPICS = topics_of(
    *_PLAIN,
    Stalled,
    PartFailed,
    RolloutScaled,
    ScaleRefused,
    CopyFailed,
    GroupDiscarded,
    StepReport,
    Evaluation,
    SynthesizerSwapped,
    SwapRefused,
    WeightSyncAlarm,
    PolicyRegressed,
)


@dataclass(frozen=True)
class Happening:
    """An event that a person should know about."""

    time_ns: int
    step: int
    """The newest step when it happened."""

    what: str
    details: str


class StepGroup(NamedTuple):
    task_id: str
    successes: int
    rollouts: int
    use: Use


class Step(NamedTuple):
    """A step without its metrics."""

    step: int
    groups: tuple[StepGroup, ...]


@dataclass
class Column:
    """A metric of the steps that have it."""

    steps: "array[int]" = field(default_factory=lambda: array("q"))
    values: "array[float]" = field(default_factory=lambda: array("d"))


@dataclass
class Timeline:
    """The timeline so far; `fold` takes the records in journal order, each once."""

    started_ns: int = 0
    newest_ns: int = 0
    steps: list[Step] = field(default_factory=list[Step])
    stepped_ns: "array[int]" = field(default_factory=lambda: array("q"))
    """When each of ``steps`` was recorded."""

    columns: dict[str, Column] = field(default_factory=dict[str, Column])
    """Those metrics of `DRAWN` that steps have."""

    evaluations: dict[int, Evaluation] = field(default_factory=dict[int, Evaluation])
    """By version. Evaluations without any score, because of infrastructure failures, are left
    out."""

    discarded: Counter[str] = field(default_factory=Counter[str])
    happenings: list[Happening] = field(default_factory=list[Happening])
    stalls: int = 0
    finished: bool = False
    """Whether the run has finished and was not resumed since."""

    @property
    def step(self) -> int:
        """The newest step, or 0."""
        return self.steps[-1].step if self.steps else 0

    def step_at(self, time_ns: int) -> int:
        """Return the newest step at a Unix time, or 0."""
        place = bisect_right(self.stepped_ns, time_ns)
        return self.steps[place - 1].step if place else 0

    def moved(self, first: int, last: int) -> Movement | None:
        """Return how the scores of two scored versions differ; None unless of the same tasks."""
        before, after = (
            {each.task_id: each.score for each in self.evaluations[version].scores}
            for version in (first, last)
        )
        return movement(before, after)

    def fold(self, message: Message, time_ns: int) -> None:
        """Add one record; ``time_ns`` is the Unix time of the record."""
        self.started_ns = self.started_ns or time_ns
        self.newest_ns = max(self.newest_ns, time_ns)
        match message:
            case StepReport():
                self._take(message, time_ns)
            case Evaluation(scores=scores) if scores:
                self.evaluations[message.version] = message
            case GroupDiscarded():
                self.discarded[message.reason] += 1
            case RunFinished() | RunResumed():
                self.finished = isinstance(message, RunFinished)
                self._note(message, time_ns)
            case Stalled():
                self.stalls += 1
                self._note(message, time_ns)
            case _:
                self._note(message, time_ns)

    def _take(self, report: StepReport, time_ns: int) -> None:
        self.steps.append(Step(report.step, tuple(map(_group, report.groups))))
        self.stepped_ns.append(time_ns)
        for metric in DRAWN:
            if (value := report.metrics.get(metric)) is not None:
                column = self.columns.setdefault(metric, Column())
                column.steps.append(report.step)
                column.values.append(value)

    def _note(self, message: Message, time_ns: int) -> None:
        text = _event_text(message)
        if text is not None:
            what, details = text
            self.happenings.append(Happening(time_ns, self.step, what, details))


def _group(group: TrainedGroup) -> StepGroup:
    task_id = sys.intern(group.task_id)  # a run has few tasks and many groups
    return StepGroup(task_id, group.successes, len(group.sequences), group.use)


def _event_text(message: Message) -> tuple[str, str] | None:
    match message:
        case Stalled():
            return f"no progress for {message.quiet_s:.0f} s", "; ".join(message.waiting)
        case PartFailed():
            return f"{message.part} restarted", message.reason
        case WeightSyncAlarm(engine=engine):
            return f"{engine} does not serve the published version", sentence(message)
        case PolicyRegressed(version=version):
            return f"version {version} is worse than an earlier one", regression(message)
        case RolloutScaled(cause=cause) if cause != "start":
            return scale_sentence(message), ""
        case SynthesizerSwapped():
            return f"{message.synthesizer} is the synthesizer from here on", ""
        case CopyFailed() | ScaleRefused() | SwapRefused():
            return _REFUSED[type(message)], message.reason
        case _:
            return (_PLAIN[type(message)], "") if type(message) in _PLAIN else None
