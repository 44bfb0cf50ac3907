"""The resources that a run has used, folded from its journal, to compare arms.

The totals count all recorded work, including that of discarded groups, so two arms with equal
totals had equal resources. They exclude the scoring of held-out tasks, which is the same in all
arms.
"""

from collections import Counter
from dataclasses import dataclass, field

from coevolve.journal.codec import topics_of
from coevolve.llm.usage import ModelUsage
from protocols.evolution import (
    Admitted,
    CandidateVerdict,
    GroupSummary,
    ModelCall,
    ProbeReport,
    SignalSettled,
)
from protocols.journal import Message
from protocols.learning import StepReport
from protocols.tasks import Continued, Synthesized, Task

TOPICS = topics_of(
    Task,
    GroupSummary,
    StepReport,
    SignalSettled,
    CandidateVerdict,
    ProbeReport,
    ModelCall,
)


@dataclass
class Sampled:
    """Conversations of the policy and the resources that they used."""

    rollouts: int = 0
    """Rollouts that did not fail."""

    errors: int = 0
    tokens: int = 0
    """Tokens that the policy wrote."""

    simulator_calls: int = 0

    def add(self, work: GroupSummary | ProbeReport) -> None:
        """Count one group or one probe."""
        self.rollouts += work.rollouts
        self.errors += work.errors
        self.tokens += work.sampled_tokens
        self.simulator_calls += work.calls


@dataclass(frozen=True)
class Cost:
    """One line of the costs."""

    name: str
    unit: str
    amount: float | None
    """None for a ratio whose denominator is 0."""

    @property
    def text(self) -> str:
        """The amount with its unit, for people; ``none yet`` for None."""
        if self.amount is None:
            return "none yet"
        match self.unit:
            case "%":
                return f"{100 * self.amount:.1f} %"
            case "USD":
                return f"{self.amount:,.4f} USD"
            case _:
                return f"{self.amount:,.0f} {self.unit}".rstrip()


@dataclass
class Costs:
    """The costs so far; `fold` takes the records in any order, each once."""

    training: Sampled = field(default_factory=Sampled)
    """All finished groups, including those that no step trained on."""

    probing: Sampled = field(default_factory=Sampled)
    exploring_calls: int = 0
    """Simulator calls of synthesizers."""

    judging_calls: int = 0
    """Simulator calls of the validator, without those of probes."""

    visits: int = 0
    """Finished groups."""

    admitted: int = 0
    synthesizing: ModelUsage = field(default_factory=ModelUsage)
    """Calls that make and judge tasks."""

    reading: ModelUsage = field(default_factory=ModelUsage)
    """Those of ``synthesizing`` that read instructions."""

    teaching: ModelUsage = field(default_factory=ModelUsage)
    groups_by_task: Counter[str] = field(default_factory=Counter[str])
    """Task id -> groups that training steps used; discarded groups do not count."""

    _synthesized: dict[str, bool] = field(default_factory=dict[str, bool])
    _roots: dict[str, str] = field(default_factory=dict[str, str])
    """Task that continues a rollout -> the task that the rollout started with."""

    def fold(self, message: Message) -> None:
        """Add one record; records of other kinds change nothing."""
        match message:
            case Task(split="train", origin=Continued(root=root), task_id=task_id):
                self._roots[task_id] = root
            case Task(split="train", origin=origin, task_id=task_id):
                self._synthesized[task_id] = isinstance(origin, Synthesized)
            case StepReport():
                self.groups_by_task.update(group.task_id for group in message.groups)
            case GroupSummary():
                self.visits += 1
                self.training.add(message)
            case ProbeReport():
                self.probing.add(message)
            case SignalSettled():
                self.exploring_calls += message.simulator_calls
            case CandidateVerdict():
                self.judging_calls += message.simulator_calls
                self.admitted += isinstance(message.outcome, Admitted)
            case ModelCall():
                self._ask(message)
            case _:
                pass

    def _ask(self, call: ModelCall) -> None:
        usages = [self.teaching if call.purpose == "teach" else self.synthesizing]
        if call.purpose == "read":
            usages.append(self.reading)
        for usage in usages:
            usage.add(call.prompt_tokens, call.answer_tokens, call.cost_usd)

    @property
    def synthesized_tasks(self) -> int:
        """Number of synthesized tasks."""
        return sum(self._synthesized.values())

    @property
    def seed_tasks(self) -> int:
        """Number of training tasks that the run started with."""
        return len(self._synthesized) - self.synthesized_tasks

    @property
    def groups(self) -> int:
        """Number of groups that training steps used."""
        return self.groups_by_task.total()

    @property
    def synthesized_groups(self) -> int:
        """Number of them on synthesized tasks."""
        return sum(
            groups
            for task, groups in self.groups_by_task.items()
            if self._synthesized.get(self._roots.get(task, task))
        )

    @property
    def synthesized_share(self) -> float | None:
        """Share of the training groups on synthesized tasks, in [0, 1]; None without any group."""
        return _per(self.synthesized_groups, self.groups)

    @property
    def simulator_calls(self) -> int:
        """Calls for training, probing, exploring and judging together."""
        return (
            self.training.simulator_calls
            + self.probing.simulator_calls
            + self.exploring_calls
            + self.judging_calls
        )

    @property
    def tokens_per_admitted(self) -> float | None:
        """Synthesizers' tokens per admitted task; None without any."""
        return _per(self.synthesizing.tokens, self.admitted)

    @property
    def cost_usd_per_admitted(self) -> float | None:
        """Synthesizers' cost per admitted task; None without any."""
        return _per(self.synthesizing.cost_usd, self.admitted)

    def lines(self) -> tuple[Cost, ...]:
        """Return the costs, one line per total, in the order in which they are shown."""
        return (
            Cost("seed tasks", "", self.seed_tasks),
            Cost("synthesized tasks", "", self.synthesized_tasks),
            Cost("training groups", "", self.groups),
            Cost("training groups on synthesized tasks", "", self.synthesized_groups),
            Cost("  share of the training groups", "%", self.synthesized_share),
            Cost("groups sampled", "", self.visits),
            *_sampled("training", self.training),
            *_sampled("probing", self.probing),
            Cost("simulator calls, exploring", "", self.exploring_calls),
            Cost("simulator calls, judging", "", self.judging_calls),
            Cost("simulator calls, all", "", self.simulator_calls),
            *_model_costs("synthesizer", self.synthesizing),
            Cost("  tokens for each admitted task", "", self.tokens_per_admitted),
            Cost("synthesizer, cost", "USD", self.synthesizing.cost_usd),
            Cost("  cost of each admitted task", "USD", self.cost_usd_per_admitted),
            Cost("  of these, calls that read instructions", "", self.reading.calls),
            Cost("  of these, tokens that read instructions", "", self.reading.tokens),
            Cost("  of these, cost of reading instructions", "USD", self.reading.cost_usd),
            *_teacher_costs(self.teaching),
        )


def _sampled(purpose: str, work: Sampled) -> tuple[Cost, ...]:
    return (
        Cost(f"rollouts, {purpose}", "", work.rollouts),
        Cost(f"  failed rollouts, {purpose}", "", work.errors),
        Cost(f"policy tokens, {purpose}", "", work.tokens),
        Cost(f"simulator calls, {purpose}", "", work.simulator_calls),
    )


def _teacher_costs(work: ModelUsage) -> tuple[Cost, ...]:
    """Return the teacher's costs; none without a teacher."""
    if not work.calls:
        return ()
    return (*_model_costs("teacher", work), Cost("teacher, cost", "USD", work.cost_usd))


def _model_costs(who: str, usage: ModelUsage) -> tuple[Cost, ...]:
    return (
        Cost(f"{who}, calls of its model", "", usage.calls),
        Cost(f"{who}, prompt tokens", "", usage.prompt_tokens),
        Cost(f"{who}, answer tokens", "", usage.answer_tokens),
    )


def _per(amount: float, count: int) -> float | None:
    return amount / count if count else None
