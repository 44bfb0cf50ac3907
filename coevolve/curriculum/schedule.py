"""The schedule: how many groups may have been requested by now, as a fold over the journal.

Two bounds always hold. The number of groups requested and not consumed (trained on or discarded)
never exceeds `protocols.config.RunConfig.most_groups_in_flight`. And the total never exceeds what
the configured steps can still use: their batches, plus one group for each discarded one.

With ``evolve_every`` = F, groups are requested in cycles of F steps, as in CoEvolve (arXiv
2604.15840: D_{t+1} = D_t u V_t every F steps). A cycle is *over* when its F steps are taken. Every
group has then been consumed, unless one of the steps was a return to an earlier version, which
consumes none. A cycle is *settled* when all resulting work is done: each group has its summary,
each signal is settled, and each candidate has a verdict, or they are dead letters. It also counts
as settled while a part that does this work rests, or the synthesizer's model. A request belongs to
the cycle of the version that it demands, so the journal determines which cycle is open.
"""

import msgspec

from coevolve.journal.codec import topics_of
from coevolve.journal.snapshots import WholeState
from protocols.config import RunConfig
from protocols.control import DeadLetter, PartsRest, RunContinued, RunPaused, RunStarted
from protocols.evolution import (
    Candidate,
    CandidateVerdict,
    GroupSummary,
    ModelAnswers,
    ModelRests,
    ReaderAnswers,
    ReaderRests,
    Signal,
    SignalSettled,
    SynthesizerSwapped,
)
from protocols.journal import Message
from protocols.learning import GroupDiscarded, PolicyVersion, StepReport
from protocols.rollouts import RolloutRequest

TOPICS = topics_of(RunStarted, RunPaused, RunContinued, RolloutRequest, StepReport, GroupDiscarded)
"""Topics of the schedule's fold."""

CYCLE_TOPICS = topics_of(
    *(GroupSummary, Signal, SignalSettled, Candidate, CandidateVerdict, DeadLetter),
    *(PartsRest, ModelRests, ModelAnswers, ReaderRests, ReaderAnswers, SynthesizerSwapped),
)
"""Additional topics of the fold if the run uses cycles."""


MAKERS = frozenset(("signals", "synthesizer", "validator"))
"""The parts that make tasks."""


def cycle_of(request: RolloutRequest, evolve_every: int) -> int:
    """Return the cycle of a request, counted from 0; 0 without cycles."""
    return request.policy_version_at_least // evolve_every if evolve_every else 0


def is_evaluated(version: int, config: RunConfig) -> bool:
    """Return whether a policy version is scored on the held-out tasks."""
    return version % config.evaluator.every == 0 or version == config.learner.steps


def is_due(version: PolicyVersion, config: RunConfig) -> bool:
    """Return the same for a version's record: a milestone is scored whatever its number."""
    return version.is_milestone or is_evaluated(version.version, config)


def is_guarded(version: int, config: RunConfig) -> bool:
    """Return whether a policy version is scored on the guard's canaries."""
    guard = config.learner.guard
    last = version == config.learner.steps
    return guard.action != "none" and (version % guard.every == 0 or last)


def is_scored(version: int, config: RunConfig) -> bool:
    """Return whether the evaluator scores a policy version; its weights are then kept."""
    return is_evaluated(version, config) or is_guarded(version, config)


class Schedule(WholeState):
    """Counts requested, consumed and open work; a `coevolve.journal.snapshots.Piece`."""

    given = frozenset(("groups_per_step", "all_steps", "room"))

    groups_per_step: int
    all_steps: int
    evolve_every: int
    """Steps of a cycle; 0 without cycles."""

    room: int
    """Maximum number of groups in flight."""

    issued: int = 0
    """Number of groups requested; also the number of the next one."""

    consumed: int = 0
    """Number of groups trained on or discarded."""

    steps: int = 0
    """Number of steps taken, which is the newest policy version."""

    is_started: bool = False
    is_paused: bool = False
    cycle: int = 0
    """The open cycle."""

    unvisited: set[int] = msgspec.field(default_factory=set[int])
    """Groups without a summary."""

    unsettled: set[str] = msgspec.field(default_factory=set[str])
    """Signals that are not settled."""

    unjudged: set[str] = msgspec.field(default_factory=set[str])
    """Candidates without a verdict."""

    parts_rest: bool = False
    model_rests: bool = False
    reader_rests: bool = False

    @classmethod
    def of(cls, config: RunConfig) -> "Schedule":
        return cls(
            groups_per_step=config.learner.groups_per_step,
            all_steps=config.learner.steps,
            evolve_every=config.cycle_steps,
            room=config.rollout.in_flight_groups or config.most_groups_in_flight,
        )

    @property
    def settings(self) -> object:
        """The steps of a cycle."""
        return self.evolve_every

    @property
    def is_cycle_over(self) -> bool:
        """Whether the open cycle's steps are taken and another cycle will follow."""
        return (
            self.evolve_every > 0
            and self.steps < self.all_steps
            and self.steps // self.evolve_every > self.cycle
        )

    @property
    def is_settled(self) -> bool:
        """Whether all work that resulted from the groups so far is done."""
        rests = self.parts_rest or self.model_rests or self.reader_rests
        return rests or not (self.unvisited or self.unsettled or self.unjudged)

    def fold(self, message: Message) -> None:
        """Add the journal's next record; ignores other message types.

        A group's request may be added twice: when it is decided, and from the journal.
        """
        match message:
            case RunStarted():
                self.is_started = True
            case RunPaused() | RunContinued():
                self.is_paused = isinstance(message, RunPaused)
            case RolloutRequest(index=0):
                self._ask(message)
            case StepReport(step=step, groups_consumed=consumed):
                self.steps = max(self.steps, step)
                self.consumed = max(self.consumed, consumed)
            case GroupDiscarded(groups_consumed=consumed):
                self.consumed = max(self.consumed, consumed)
            case _ if self.evolve_every:
                self._fold_cycle(message)
            case _:
                pass

    def may_be_issued(self, *, go_on: bool) -> int:
        """Return how many groups may have been requested by now.

        Args:
            go_on: Whether the next cycle may begin if the open one is over.
        """
        if self.is_paused or not self.is_started:
            return self.issued
        discarded = self.consumed - self.steps * self.groups_per_step
        needed = self._steps_allowed(go_on=go_on) * self.groups_per_step + discarded
        return min(self.consumed + self.room, needed)

    def open_work(self) -> str:
        """Return the open work that keeps the cycle from being settled, with counts."""
        parts = (
            (self.unvisited, "visits"),
            (self.unsettled, "signals to be settled"),
            (self.unjudged, "verdicts"),
        )
        return ", ".join(f"{what} ({len(awaited)})" for awaited, what in parts if awaited)

    def _steps_allowed(self, *, go_on: bool) -> int:
        every = self.evolve_every
        if not every:
            return self.all_steps
        cycle = self.steps // every if go_on else self.cycle
        return min(self.all_steps, (cycle + 1) * every)

    def _ask(self, request: RolloutRequest) -> None:
        if request.group < self.issued:
            return
        self.issued = request.group + 1
        self.cycle = max(self.cycle, cycle_of(request, self.evolve_every))
        if self.evolve_every:
            self.unvisited.add(request.group)

    def _fold_cycle(self, message: Message) -> None:
        match message:
            case GroupSummary(group=group):
                self.unvisited.discard(group)
            case Signal(signal_id=signal_id):
                self.unsettled.add(signal_id)
            case SignalSettled(signal_id=signal_id):
                self.unsettled.discard(signal_id)
            case Candidate(candidate_id=candidate_id):
                self.unjudged.add(candidate_id)
            case CandidateVerdict(candidate_id=candidate_id):
                self.unjudged.discard(candidate_id)
            case _:
                self._fold_failures(message)

    def _fold_failures(self, message: Message) -> None:
        match message:
            case DeadLetter(consumer="signals", subject=subject):
                self.unvisited.discard(int(subject))
            case DeadLetter(consumer="validator", subject=subject):
                self.unjudged.discard(subject)
            case PartsRest(causes=causes):
                self.parts_rest = not MAKERS.isdisjoint(causes)
            case ModelRests() | ModelAnswers() | SynthesizerSwapped():
                self.model_rests = isinstance(message, ModelRests)
            case ReaderRests() | ReaderAnswers():
                self.reader_rests = isinstance(message, ReaderRests)
            case _:
                pass
