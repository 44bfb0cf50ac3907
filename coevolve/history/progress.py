"""The progress of a run, folded from its journal for the display, the metrics and attach."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from coevolve.history import curves
from coevolve.history.degraded import TOPICS as DEGRADED_TOPICS
from coevolve.history.degraded import Degraded
from coevolve.history.histories import note_parked
from coevolve.history.instance_gap import InstanceGap, Side, instance_gaps
from coevolve.history.passing import TOPICS as PASSING_TOPICS
from coevolve.history.passing import Passing
from coevolve.history.score import Choice, Half, Score, choice, half_of, score_of
from coevolve.history.stages import Stages
from coevolve.history.starts import TOPICS as START_TOPICS
from coevolve.history.starts import Starts
from coevolve.history.teaching import Teaching
from coevolve.history.weight_sync import TOPICS as DELIVERY_TOPICS
from coevolve.history.weight_sync import Deliveries
from coevolve.journal.codec import topics_of
from coevolve.journal.snapshots import Snapshots, WholeState
from protocols.control import CopyFailed, PartFailed, RunCopied, Stalled
from protocols.evolution import Admitted, CandidateVerdict, Refused, Signal, SignalSettled
from protocols.interfaces import Reader
from protocols.journal import Message
from protocols.learning import (
    CanaryScores,
    Evaluation,
    GroupDiscarded,
    PolicyRegressed,
    StepReport,
    TaskScore,
)

TOPICS = tuple(
    dict.fromkeys(
        (
            *DELIVERY_TOPICS,
            *DEGRADED_TOPICS,
            *PASSING_TOPICS,
            *START_TOPICS,
            *topics_of(
                Evaluation,
                CanaryScores,
                PolicyRegressed,
                GroupDiscarded,
                Signal,
                SignalSettled,
                CandidateVerdict,
                PartFailed,
                RunCopied,
                CopyFailed,
            ),
        )
    )
)
RECENT = 5

HELD_OUT = "held out"
SCENARIOS = "scenarios"
"""Label of the tasks that are never trained on, if other tasks are scored too."""


class Progress(WholeState):
    """The progress so far; `fold` takes the records in journal order, each once."""

    given = frozenset(("labels", "unearned"))

    labels: Mapping[str, Sequence[str]]
    """Held-out task id -> labels under which its success is reported."""

    unearned: int = 0
    """Given tasks that an attempt solves without doing what they ask."""

    step: int = 0
    metrics: Mapping[str, float] = msgspec.field(default_factory=dict[str, float])
    curves: dict[str, list[float]] = msgspec.field(default_factory=dict[str, list[float]])
    """Metric -> its newest values, for those of `coevolve.history.curves`."""

    evaluations: dict[int, dict[str, Score]] = msgspec.field(
        default_factory=dict[int, dict[str, Score]]
    )
    """Policy version -> label -> success; the label ``all`` covers every task."""

    scenarios: dict[int, dict[str, Score]] = msgspec.field(
        default_factory=dict[int, dict[str, Score]]
    )
    """Policy version -> label -> share of scenarios all of whose scored tasks are solved; empty if
    the environment has none."""

    measured: dict[str, dict[int, dict[str, Score]]] = msgspec.field(
        default_factory=dict[str, dict[int, dict[str, Score]]]
    )
    """Measure of the environment -> policy version -> label -> score."""

    halves: dict[int, dict[Half, Score]] = msgspec.field(
        default_factory=dict[int, dict[Half, Score]]
    )
    """Policy version -> half of the held-out tasks -> score by `measure`."""

    canaries: dict[int, Score] = msgspec.field(default_factory=dict[int, Score])
    """Policy version -> score on the guard's tasks."""

    gaps: dict[Side, InstanceGap] = msgspec.field(default_factory=dict[Side, InstanceGap])
    """The instance gaps that were measured last."""

    stages: Stages = msgspec.field(default_factory=Stages)
    teaching: Teaching = msgspec.field(default_factory=Teaching)
    errors: dict[int, int] = msgspec.field(default_factory=dict[int, int])
    discarded: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    evolution: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    """Counts by metric name: ``signal/<kind>``, ``synth/<outcome of a signal>``,
    ``validator/admit/<label>``, `PARKED`, ``validator/reject/<gate>``."""

    parked: set[str] = msgspec.field(default_factory=set[str])
    """The candidates that are parked."""

    deliveries: Deliveries = msgspec.field(default_factory=Deliveries)
    failures: list[PartFailed] = msgspec.field(default_factory=list[PartFailed])
    """The newest `RECENT` restarts of parts, and why."""

    restarts: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    """Part -> number of its restarts."""

    degraded: Degraded = msgspec.field(default_factory=Degraded)
    passing: Passing = msgspec.field(default_factory=Passing)
    starts: Starts = msgspec.field(default_factory=Starts)
    stalls: list[Stalled] = msgspec.field(default_factory=list[Stalled])
    copied: RunCopied | None = None
    """The newest copy of the run."""

    copy_failed: CopyFailed | None = None
    """Why there is no newer copy; None if the last one was made."""

    lines: int = 0
    """Number of lines that `MetricsFile` has for these records."""

    @property
    def settings(self) -> object:
        return self.labels

    def fold(self, message: Message) -> None:
        """Add one record; records of other kinds change nothing."""
        self.deliveries.fold(message)
        self.stages.fold(message)
        self.teaching.fold(message)
        self.degraded.fold(message)
        self.passing.fold(message)
        self.starts.fold(message)
        match message:
            case StepReport():
                self.step = message.step
                self.metrics = message.metrics
                curves.add(self.curves, message.metrics)
            case Evaluation():
                self.evaluations[message.version] = self._success(message)
                self._group(message)
                self._measure(message)
                self._halve(message)
                self.gaps = instance_gaps(message) or self.gaps
                self.errors[message.version] = message.errors
            case CanaryScores(scores=scores) if message.is_comparable:
                self.canaries[message.version] = score_of((x.task_id, x.score) for x in scores)
            case GroupDiscarded():
                self.discarded[message.reason] = self.discarded.get(message.reason, 0) + 1
            case Signal() | SignalSettled() | CandidateVerdict():
                self._evolve(message)
            case PartFailed(part=part):
                self.failures = [*self.failures, message][-RECENT:]
                self.restarts[part] = self.restarts.get(part, 0) + 1
            case Stalled():
                self.stalls = [*self.stalls, message][-RECENT:]
            case RunCopied() | CopyFailed():
                self._note_copy(message)
            case _:
                pass
        self.lines += self.has_line(message)

    def has_line(self, message: Message) -> bool:
        """Return whether `MetricsFile` has a line for a message that was folded."""
        if isinstance(message, CanaryScores):
            return message.version in self.canaries
        return isinstance(message, StepReport | Evaluation)

    def count(self, prefix: str) -> int:
        """Return the sum of the evolution counts whose names begin with ``prefix``."""
        return sum(n for name, n in self.evolution.items() if name.startswith(prefix))

    @property
    def measure(self) -> str:
        """The measure that versions are compared by: the environment's first, or else success."""
        return next(iter(self.measured), "success")

    @property
    def scores(self) -> Mapping[int, Mapping[str, Score]]:
        """Policy version -> label -> score by `measure`."""
        return self.measured.get(self.measure, self.evaluations)

    @property
    def tables(self) -> Mapping[str, Mapping[int, Mapping[str, Score]]]:
        """Return by name the scores by each measure of the environment, and then by success."""
        scenarios = {SCENARIOS: self.scenarios} if self.scenarios else {}
        return {**self.measured, "success": self.evaluations, **scenarios}

    def held_out(self) -> dict[int, Score]:
        """Return the held-out score of each scored version, by `measure`."""
        return {v: each.get(HELD_OUT, each["all"]) for v, each in self.scores.items() if each}

    def unscored(self, run: str) -> str:
        """Return that the newest version has no score, and what gives it one; empty if it has.

        ``run`` is the run, as a user would type it.
        """
        if not self.step or self.step in self.held_out():
            return ""
        return (
            f"version {self.step}, the newest, has no held-out score; score it with: "
            f"coevolve evaluate {run}"
        )

    def result(self) -> Sequence[tuple[str, str]]:
        """Return (what, value): how far the held-out score moved; nothing before two scores."""
        scores = self.held_out()
        if len(scores) < 2:
            return ()
        first, last = min(scores), max(scores)
        start, end = scores[first].mean, scores[last].mean
        moved = f"{100 * start:.1f} -> {scores[last].percent}, {100 * (end - start):+.1f} points"
        return ((f"held-out {self.measure}, version {first} to {last}", moved),)

    def choice(self, versions: Iterable[int] | None = None) -> Choice | None:
        """Return the best of ``versions``, by default of all; None if none of them has a score."""
        held_out = self.held_out()
        among = {*self.canaries, *held_out} if versions is None else versions
        return choice(self.canaries, self.halves, held_out, among)

    def lesson(self) -> str:
        """Return a sentence if the run learned nothing, with a remedy that it does not use yet.

        The score of version 0 alone says nothing of what it learned.
        """
        scores = self.held_out()
        trained = [score for version, score in scores.items() if version]
        solves = any(score.mean for score in trained)
        if self.stages.loop_steps and (lesson := self.teaching.lesson(solves=solves)):
            return lesson
        if not trained or any(score.mean for score in scores.values()):
            return ""
        return f"No scored version solved any held-out task: {self.teaching.remedies}"

    def _note_copy(self, result: RunCopied | CopyFailed) -> None:
        if isinstance(result, RunCopied):
            self.copied, self.copy_failed = result, None
        else:
            self.copy_failed = result

    def _evolve(self, message: Signal | SignalSettled | CandidateVerdict) -> None:
        counts, name = self.evolution, _evolved(message)
        if isinstance(message, CandidateVerdict):
            counts[PARKED] = counts.get(PARKED, 0) + note_parked(self.parked, message)
        if name != PARKED:
            counts[name] = counts.get(name, 0) + 1

    def _success(self, evaluation: Evaluation) -> dict[str, Score]:
        return self._means(
            (score.task_id, score.turns_passed == score.turns_total) for score in evaluation.scores
        )

    def _group(self, evaluation: Evaluation) -> None:
        """Add the scores of scenarios; one has the labels of its first task."""
        found: defaultdict[str, list[TaskScore]] = defaultdict(list)
        for each in evaluation.scores:
            if each.scenario:
                found[each.scenario].append(each)
        if found:
            self.scenarios[evaluation.version] = self._means(
                (held[0].task_id, all(each.turns_passed == each.turns_total for each in held))
                for held in found.values()
            )

    def _measure(self, evaluation: Evaluation) -> None:
        """Add the scores by all measures."""
        for name in dict.fromkeys(name for each in evaluation.scores for name in each.measures):
            self.measured.setdefault(name, {})[evaluation.version] = self._means(
                (score.task_id, score.measures[name])
                for score in evaluation.scores
                if name in score.measures
            )

    def _halve(self, evaluation: Evaluation) -> None:
        held = [each for each in evaluation.scores if HELD_OUT in self.labels.get(each.task_id, ())]
        found: defaultdict[Half, list[tuple[str, float]]] = defaultdict(list)
        for each in held or evaluation.scores:
            found[half_of(each.scenario or each.task_id)].append((each.task_id, each.score))
        self.halves[evaluation.version] = {half: score_of(x) for half, x in found.items()}

    def _means(self, scores: Iterable[tuple[str, float]]) -> dict[str, Score]:
        """Return the score of the tasks' numbers by label."""
        found: dict[str, list[tuple[str, float]]] = {"all": []}
        for task_id, number in scores:
            for label in ("all", *self.labels.get(task_id, ())):
                found.setdefault(label, []).append((task_id, number))
        return {label: score_of(x) for label, x in found.items() if x}


PARKED = "validator/parked"
"""The number of candidates that are parked; other verdicts are counted."""


def _evolved(message: Signal | SignalSettled | CandidateVerdict) -> str:
    """Return the name under which the record is counted."""
    match message:
        case Signal(kind=kind):
            return f"signal/{kind}"
        case SignalSettled(outcome=outcome):
            return f"synth/{outcome}"
        case CandidateVerdict(outcome=Admitted(label=label)):
            return f"validator/admit/{label}"
        case CandidateVerdict(outcome=Refused(gate=gate)):
            return f"validator/reject/{gate}"
        case CandidateVerdict():
            return PARKED


def progress_snapshots(
    reader: Reader, labels: Mapping[str, Sequence[str]], unearned: int = 0
) -> Snapshots[Progress]:
    """Return the snapshots of the progress, with `Progress.labels` and `Progress.unearned`."""
    return Snapshots(reader, "launcher's progress", TOPICS, lambda: Progress(labels, unearned))
