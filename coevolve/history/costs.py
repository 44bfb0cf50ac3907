"""The resources that a run has used, folded from its journal, to compare arms.

The launcher writes snapshots of them (`coevolve.runs.drive`).

The totals count all recorded work, including that of discarded groups, so two arms with equal
totals had equal resources. They exclude the scoring of held-out tasks, which is the same in all
arms.
"""

import sys
from dataclasses import dataclass

import msgspec

from coevolve.journal.codec import topics_of
from coevolve.journal.snapshots import Snapshots, WholeState
from coevolve.llm.usage import ModelUsage
from protocols.evolution import (
    Admitted,
    CandidateVerdict,
    GroupSummary,
    ModelCall,
    ProbeReport,
    SignalSettled,
)
from protocols.interfaces import Reader
from protocols.journal import Message
from protocols.learning import StepReport
from protocols.tasks import Continued, Instantiated, Seeded, Synthesized, Task

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
    retried: int = 0
    """Rollouts that a later try than the first made."""

    tokens: int = 0
    """Tokens that the policy wrote."""

    simulator_calls: int = 0

    def add(self, work: GroupSummary | ProbeReport) -> None:
        self.rollouts += work.rollouts
        self.errors += work.errors
        self.retried += work.retried if isinstance(work, GroupSummary) else 0
        self.tokens += work.sampled_tokens
        self.simulator_calls += work.calls


@dataclass(frozen=True)
class Cost:
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


class Costs(WholeState):
    """The costs so far; `fold` takes the records in journal order, each once."""

    given = frozenset(("most_tasks",))

    training: Sampled = msgspec.field(default_factory=Sampled)
    """All finished groups, including those that no step trained on."""

    probing: Sampled = msgspec.field(default_factory=Sampled)
    exploring_calls: int = 0
    """Simulator calls of synthesizers."""

    judging_calls: int = 0
    """Simulator calls of the validator, without those of probes."""

    visits: int = 0
    """Finished groups."""

    admitted: int = 0
    synthesizing: ModelUsage = msgspec.field(default_factory=ModelUsage)
    """Calls that make and judge tasks."""

    reading: ModelUsage = msgspec.field(default_factory=ModelUsage)
    """Those of ``synthesizing`` that read instructions."""

    teaching: ModelUsage = msgspec.field(default_factory=ModelUsage)
    seed_tasks: int = 0
    """Training tasks that the loop did not make."""

    synthesized_tasks: int = 0
    """Training tasks that the loop made; likewise without those that continue a rollout."""

    groups: int = 0
    """Groups that training steps used; discarded groups do not count."""

    synthesized_groups: int = 0
    """Of these, groups on synthesized tasks, if the task is one of the last ``most_tasks``."""

    known: dict[str, bool] = msgspec.field(default_factory=dict[str, bool])
    """Whether a task, or the one that it continues, is synthesized; in the order of the last
    use."""

    most_tasks: int = sys.maxsize
    """Number of tasks, of those that were recorded or trained on last, that the costs tell apart.
    The launcher, which writes the snapshots, limits it."""

    def fold(self, message: Message) -> None:
        """Add one record; records of other kinds change nothing."""
        match message:
            case Task(split="train"):
                self._fold_task(message)
            case StepReport():
                self._train(message)
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

    def _fold_task(self, task: Task) -> None:
        is_new = task.task_id not in self.known
        match task.origin:
            case Continued(root=root):
                self._use(task.task_id, is_synthesized=self.known.get(root, False))
            case Synthesized():
                self.synthesized_tasks += is_new
                self._use(task.task_id, is_synthesized=True)
            case Instantiated():
                pass  # groups on it count for the task that it is an instance of
            case Seeded():
                self.seed_tasks += is_new
                self._use(task.task_id, is_synthesized=False)

    def _train(self, report: StepReport) -> None:
        self.groups += len(report.groups)
        for group in report.groups:
            if (is_synthesized := self.known.get(group.task_id)) is not None:
                self.synthesized_groups += is_synthesized
                self._use(group.task_id, is_synthesized=is_synthesized)

    def _use(self, task_id: str, *, is_synthesized: bool) -> None:
        """Note a task as the last used."""
        self.known.pop(task_id, None)
        self.known[task_id] = is_synthesized
        while len(self.known) > self.most_tasks:
            del self.known[next(iter(self.known))]

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


def costs_snapshots(reader: Reader, most_tasks: int = sys.maxsize) -> Snapshots[Costs]:
    """Return the snapshots of the costs; for ``most_tasks`` see `Costs`."""
    return Snapshots(reader, "launcher's costs", TOPICS, lambda: Costs(most_tasks=most_tasks))


def _sampled(purpose: str, work: Sampled) -> tuple[Cost, ...]:
    asked = work.rollouts + work.errors
    return (
        Cost(f"rollouts, {purpose}", "", work.rollouts),
        Cost(f"  failed rollouts, {purpose}", "", work.errors),
        Cost(f"  share of failed rollouts, {purpose}", "%", _per(work.errors, asked)),
        Cost(f"  rollouts of a later try, {purpose}", "", work.retried),
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
