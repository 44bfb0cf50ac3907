"""What can be said of a signal, a task or a synthesizer: the answers of `Evolution`."""

from collections import Counter
from dataclasses import dataclass, field

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
"""The outcome of a signal that nobody has settled yet."""


@dataclass(frozen=True)
class Trained:
    """A training step whose batch held a group of the task."""

    step: int
    use: str
    """As in `protocols.learning.TrainedGroup`."""


@dataclass(frozen=True)
class TaskHistory:
    """A task and what happened to it."""

    task: Task
    verdict: CandidateVerdict | None
    """What admitted it; None for a seed task."""

    visits: tuple[GroupSummary, ...]
    trained: tuple[Trained, ...]

    @property
    def label(self) -> Label | None:
        """How the policy did on the probes; None for a seed task."""
        outcome = self.verdict.outcome if self.verdict else None
        return outcome.label if isinstance(outcome, Admitted) else None

    @property
    def synthesizer(self) -> str:
        """Which model made it; empty for a seed task."""
        return self.verdict.synthesizer if self.verdict else ""


@dataclass(frozen=True)
class SignalHistory:
    """A signal and what became of it."""

    signal: Signal
    time_ns: int
    """Unix time at which it was recorded; 0 where that is not known."""

    before: tuple[GroupSummary, ...]
    """Visits of the flagged task until then; empty where a pattern is flagged."""

    since: tuple[GroupSummary, ...]
    """Its visits after that."""

    settled: SignalSettled | None
    candidates: tuple[Candidate, ...]
    verdicts: tuple[CandidateVerdict, ...]
    """The newest of each candidate that was judged."""

    tasks: tuple[TaskHistory, ...]

    @property
    def outcome(self) -> str:
        """``waiting``, or how the synthesizer settled it."""
        return self.settled.outcome if self.settled else WAITING

    @property
    def visits(self) -> tuple[GroupSummary, ...]:
        """The visits of the tasks that came of it."""
        return tuple(visit for task in self.tasks for visit in task.visits)


@dataclass(frozen=True)
class Lineage:
    """Where a task comes from and what it led to. A seed task has no lineage above itself."""

    history: TaskHistory
    signal: SignalHistory | None
    exploration: Exploration | None
    candidate: Candidate | None
    verdicts: tuple[CandidateVerdict, ...]
    """Of the candidate, oldest first: it may have been parked before it was admitted."""

    probes: tuple[ProbeReport, ...]
    signals: tuple[SignalHistory, ...]
    """Signals about the task itself."""


@dataclass
class SynthesizerTotals:
    """What one synthesizer achieved, and what it took."""

    synthesizer: str
    settled: Counter[str] = field(default_factory=Counter[str])
    """Signals by outcome."""

    candidates: int = 0
    labels: Counter[str] = field(default_factory=Counter[str])
    """Admitted candidates by label."""

    parked: int = 0
    gates: Counter[str] = field(default_factory=Counter[str])
    """Refused candidates by gate."""

    usage: ModelUsage = field(default_factory=ModelUsage)
    simulator_calls: int = 0

    @property
    def admitted(self) -> int:
        """Candidates that became tasks."""
        return self.labels.total()

    @property
    def refused(self) -> int:
        """Candidates that failed a gate."""
        return self.gates.total()

    @property
    def acceptance(self) -> float | None:
        """Admitted share of the judged candidates, 0..1; None before any was judged."""
        return _ratio(self.admitted, self.admitted + self.parked + self.refused)

    @property
    def learnable_share(self) -> float | None:
        """Share of the admitted ones on which the policy succeeds sometimes; None before any."""
        return _ratio(self.labels["learnable"], self.admitted)

    @property
    def tokens_per_admitted(self) -> float | None:
        """Prompt and answer tokens for each admitted candidate; None before any."""
        return _ratio(self.usage.tokens, self.admitted)

    @property
    def cost_usd_per_admitted(self) -> float | None:
        """Cost of each admitted candidate; None before any."""
        return _ratio(self.usage.cost_usd, self.admitted)

    def settled_one(self, settled: SignalSettled) -> None:
        """Count a signal that the synthesizer is done with."""
        self.settled[settled.outcome] += 1
        self.simulator_calls += settled.simulator_calls

    def judged(self, verdict: CandidateVerdict) -> None:
        """Count the newest verdict on a candidate."""
        match verdict.outcome:
            case Admitted(label=label):
                self.labels[label] += 1
            case Parked():
                self.parked += 1
            case Refused(gate=gate):
                self.gates[gate] += 1


@dataclass(frozen=True)
class Swap:
    """One model took over from another."""

    before: str
    """The synthesizer's name before; empty where nothing tells it."""

    after: str
    model: SynthesizerModel
    version: int
    """Newest policy version that the journal knew of."""

    time_ns: int


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
