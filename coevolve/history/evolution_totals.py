"""Totals of how the training data of a run evolved, with the same size after a day and a week.

`attach status` shows them. The launcher writes snapshots of them (`coevolve.runs.drive`), so nobody
has to read all records for a count. What is counted relies on two promises: the synthesizer
settles each signal once, and of the verdicts on a candidate only *parked* is followed by another.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from coevolve.history.histories import WAITING, Swap, SynthesizerTotals, note_parked
from coevolve.journal.codec import topics_of
from coevolve.journal.snapshots import Snapshots, WholeState
from protocols.control import RunContinued, RunPaused
from protocols.evolution import (
    Candidate,
    CandidateVerdict,
    ModelCall,
    Signal,
    SignalSettled,
    SwapRefused,
    SynthesizerSwapped,
)
from protocols.interfaces import Reader
from protocols.journal import Message
from protocols.learning import StepReport
from protocols.tasks import Seeded, Synthesized, Task

TOPICS = topics_of(
    Task,
    Signal,
    SignalSettled,
    Candidate,
    CandidateVerdict,
    ModelCall,
    StepReport,
    SynthesizerSwapped,
    SwapRefused,
    RunPaused,
    RunContinued,
)


class EvolutionTotals(WholeState):
    """The totals so far; a `coevolve.journal.snapshots.Piece`."""

    version: int = 0
    """The newest policy version that training has made."""

    paused: bool = False
    synthesizer: str = ""
    """Name of the current synthesizer according to the records; empty if there is none yet."""

    swaps: list[Swap] = msgspec.field(default_factory=list[Swap])
    refused_swaps: list[SwapRefused] = msgspec.field(default_factory=list[SwapRefused])

    seed_tasks: int = 0
    """Tasks that the loop did not make; without those that continue a rollout."""

    made_tasks: int = 0
    signals: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    """Kind -> number of signals."""

    settled: dict[str, dict[str, int]] = msgspec.field(default_factory=dict[str, dict[str, int]])
    """Kind -> outcome -> number of signals that the synthesizer has resolved."""

    by_synthesizer: dict[str, SynthesizerTotals] = msgspec.field(
        default_factory=dict[str, SynthesizerTotals]
    )
    parked: set[str] = msgspec.field(default_factory=set[str])
    """Candidates whose newest verdict is that they are parked."""

    def fold(self, message: Message) -> None:
        """Add the journal's next record; ignores other message types."""
        match message:
            case StepReport(step=step):
                self.version = step
            case Task(origin=Seeded() | Synthesized() as origin):
                self.seed_tasks += isinstance(origin, Seeded)
                self.made_tasks += not isinstance(origin, Seeded)
            case RunPaused() | RunContinued():
                self.paused = isinstance(message, RunPaused)
            case _:
                self._fold_synthesis(message)

    def synthesizers(self) -> Sequence[SynthesizerTotals]:
        """Return the totals of each model, in the order of the models' first records.

        A model that only judged has totals too: its calls, tokens and cost.
        """
        return list(self.by_synthesizer.values())

    def kinds(self) -> dict[str, Counter[str]]:
        """Return, for each kind of signal, the number of signals by outcome."""
        return {kind: self._outcomes(kind, count) for kind, count in self.signals.items()}

    def refusals(self) -> Counter[str]:
        """Return the number of refused candidates by gate."""
        counts: Counter[str] = Counter()
        for totals in self.by_synthesizer.values():
            counts.update(totals.gates)
        return counts

    def _outcomes(self, kind: str, count: int) -> Counter[str]:
        outcomes = Counter(self.settled.get(kind, {}))
        if waiting := count - outcomes.total():
            outcomes[WAITING] = waiting
        return outcomes

    def _fold_synthesis(self, message: Message) -> None:
        match message:
            case Signal(kind=kind):
                self.signals[kind] = self.signals.get(kind, 0) + 1
            case SignalSettled():
                self._settle(message)
            case Candidate(synthesizer=name):
                self._of(name).candidates += 1
            case CandidateVerdict():
                self._judge(message)
            case ModelCall(purpose="teach"):
                pass  # counted in `coevolve.history.costs`
            case ModelCall(model=model):
                usage = self._of(model).usage
                usage.add(message.prompt_tokens, message.answer_tokens, message.cost_usd)
            case SynthesizerSwapped():
                self._swap(message)
            case SwapRefused():
                self.refused_swaps.append(message)
            case _:
                pass

    def _of(self, name: str) -> SynthesizerTotals:
        return self.by_synthesizer.setdefault(name, SynthesizerTotals(synthesizer=name))

    def _settle(self, settled: SignalSettled) -> None:
        outcomes = self.settled.setdefault(settled.kind, {})
        outcomes[settled.outcome] = outcomes.get(settled.outcome, 0) + 1
        if settled.synthesizer:
            self._of(settled.synthesizer).settled_one(settled)
        if not self.swaps:  # after a swap, the old model may still finish its last signals
            self.synthesizer = settled.synthesizer or self.synthesizer

    def _judge(self, verdict: CandidateVerdict) -> None:
        totals = self._of(verdict.synthesizer)
        totals.judged(verdict)
        totals.parked += note_parked(self.parked, verdict)

    def _swap(self, message: SynthesizerSwapped) -> None:
        self.swaps.append(
            Swap(
                before=self.synthesizer,
                after=message.synthesizer,
                model=message.model,
                version=self.version,
            )
        )
        self.synthesizer = message.synthesizer


def evolution_snapshots(reader: Reader) -> Snapshots[EvolutionTotals]:
    return Snapshots(reader, "launcher's totals", TOPICS, EvolutionTotals)
