"""Histories of signals, tasks and synthesizers, as `LineageIndex` returns them."""

from copy import copy
from dataclasses import dataclass, field

from coevolve.history.group_totals import Score, TaskGroups
from coevolve.llm.usage import ModelUsage
from protocols.evolution import (
    Admitted,
    Candidate,
    CandidateVerdict,
    Exploration,
    GroupSummary,
    Label,
    Parked,
    ProbeReport,
    Refused,
    Signal,
    SignalSettled,
)
from protocols.synthesizers import SynthesizerModel
from protocols.tasks import Task

WAITING = "waiting"
"""The outcome of a signal that the synthesizer has not resolved yet."""


@dataclass(frozen=True)
class Trained:
    """A training step whose batch contained a group of the task."""

    step: int
    use: str
    """As in `protocols.learning.TrainedGroup`."""


@dataclass(frozen=True)
class TaskHistory:
    task: Task
    verdict: CandidateVerdict | None
    """The verdict that admitted it; None for a seed task."""

    dropped: TaskGroups
    """Groups whose summaries the journal dropped."""

    visits: tuple[GroupSummary, ...]
    """Groups whose summaries it has, all newer, oldest first."""

    trained: tuple[Trained, ...]

    @property
    def groups(self) -> TaskGroups:
        """All groups of the task."""
        groups = copy(self.dropped)
        for visit in self.visits:
            groups.add(visit)
        return groups

    @property
    def label(self) -> Label | None:
        """The task's label from its probes at admission; None for a seed task."""
        outcome = self.verdict.outcome if self.verdict else None
        return outcome.label if isinstance(outcome, Admitted) else None

    @property
    def synthesizer(self) -> str:
        """The model that made it; empty for a seed task."""
        return self.verdict.synthesizer if self.verdict else ""


@dataclass(frozen=True)
class SignalHistory:
    signal: Signal
    time_ns: int
    """Unix time of the record; 0 if it is unknown."""

    before: tuple[GroupSummary, ...]
    """Groups of the flagged task before the signal, without those whose summaries the journal
    dropped; empty if the signal is about a pattern."""

    since: tuple[GroupSummary, ...]
    """Groups of the flagged task after the signal, likewise."""

    settled: SignalSettled | None
    explorations: tuple[Exploration, ...]
    candidates: tuple[Candidate, ...]
    verdicts: tuple[CandidateVerdict, ...]
    """The newest verdict on each judged candidate."""

    tasks: tuple[TaskHistory, ...]

    @property
    def outcome(self) -> str:
        """``waiting``, or the outcome that the synthesizer recorded."""
        return self.settled.outcome if self.settled else WAITING

    @property
    def visits(self) -> tuple[GroupSummary, ...]:
        """The groups of the tasks that resulted from the signal, likewise."""
        return tuple(visit for task in self.tasks for visit in task.visits)

    @property
    def results(self) -> Score:
        """The results of all groups of these tasks, those that were dropped included."""
        groups = [task.groups for task in self.tasks]
        return Score(sum(each.successes for each in groups), sum(each.rollouts for each in groups))


@dataclass(frozen=True)
class Lineage:
    """The origin of a task and what followed from it. A seed task has only its own history."""

    history: TaskHistory
    signal: SignalHistory | None
    exploration: Exploration | None
    candidate: Candidate | None
    verdicts: tuple[CandidateVerdict, ...]
    """Verdicts on the candidate, oldest first. It may have been parked before its admission."""

    probes: tuple[ProbeReport, ...]
    signals: tuple[SignalHistory, ...]
    """Signals about the task itself."""


@dataclass
class SynthesizerTotals:
    """The results of one synthesizer, and the resources that it used."""

    synthesizer: str
    settled: dict[str, int] = field(default_factory=dict[str, int])
    """Signals by outcome."""

    candidates: int = 0
    labels: dict[str, int] = field(default_factory=dict[str, int])
    """Admitted candidates by label."""

    parked: int = 0
    gates: dict[str, int] = field(default_factory=dict[str, int])
    """Refused candidates by gate."""

    usage: ModelUsage = field(default_factory=ModelUsage)
    simulator_calls: int = 0

    @property
    def admitted(self) -> int:
        """Candidates that became tasks."""
        return sum(self.labels.values())

    @property
    def refused(self) -> int:
        """Candidates that failed a gate."""
        return sum(self.gates.values())

    @property
    def acceptance(self) -> float | None:
        """Share of the judged candidates that were admitted, in [0, 1]; None without any judged."""
        return _ratio(self.admitted, self.admitted + self.parked + self.refused)

    @property
    def learnable_share(self) -> float | None:
        """Share of the probed admitted candidates that are learnable, 0..1; None without any."""
        probed = self.admitted - self.labels.get("unprobed", 0)
        return _ratio(self.labels.get("learnable", 0), probed)

    @property
    def tokens_per_admitted(self) -> float | None:
        """Prompt and answer tokens per admitted candidate; None without any."""
        return _ratio(self.usage.tokens, self.admitted)

    @property
    def cost_usd_per_admitted(self) -> float | None:
        """Cost per admitted candidate; None without any."""
        return _ratio(self.usage.cost_usd, self.admitted)

    def settled_one(self, settled: SignalSettled) -> None:
        """Count a signal that the synthesizer has resolved."""
        _count(self.settled, settled.outcome)
        self.simulator_calls += settled.simulator_calls

    def judged(self, verdict: CandidateVerdict) -> None:
        """Count the newest verdict on a candidate, but not whether it is ``parked``."""
        match verdict.outcome:
            case Admitted(label=label):
                _count(self.labels, label)
            case Parked():
                pass  # whether it is the candidate's first one, only `note_parked` knows
            case Refused(gate=gate):
                _count(self.gates, gate)


@dataclass(frozen=True)
class Swap:
    """A change of the synthesizer's model."""

    before: str
    """Name of the synthesizer before; empty if no record names it."""

    after: str
    model: SynthesizerModel
    version: int
    """Newest policy version in the journal at that moment."""


def note_parked(parked: set[str], verdict: CandidateVerdict) -> int:
    """Add a verdict to the ids of ``parked`` candidates; return the change of their number.

    A candidate that is probed again counts as parked until its next verdict.
    """
    before = len(parked)
    if isinstance(verdict.outcome, Parked):
        parked.add(verdict.candidate_id)
    else:
        parked.discard(verdict.candidate_id)
    return len(parked) - before


def _count(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
