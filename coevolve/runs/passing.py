"""What a run is in for a while: a pause, a swap of the synthesizer, a stall, its stop."""

from dataclasses import dataclass

from coevolve.journal.codec import topics_of
from protocols.control import RunContinued, RunPaused, RunResumed, Stalled, StopRequested
from protocols.evolution import SignalSettled, SwapRefused, SynthesizerSwapped
from protocols.journal import Message

TOPICS = topics_of(
    *(RunPaused, RunContinued, RunResumed, StopRequested, Stalled),
    *(SynthesizerSwapped, SwapRefused, SignalSettled),
)

PAUSED = "paused; no work is handed out until `coevolve attach resume`"


@dataclass
class Passing:
    """The state so far; `fold` takes the records in journal order, each once."""

    paused: bool = False
    stopping: bool = False
    """Whether a user has asked the run to stop since its last start."""

    swapped: SynthesizerSwapped | None = None
    """The newest swap, until its synthesizer has settled a signal."""

    stalled: Stalled | None = None
    """The alarm about a run without progress, until the next record."""

    def fold(self, message: Message) -> None:
        """Add one record; one of any kind ends a stall."""
        self.stalled = message if isinstance(message, Stalled) else None
        match message:
            case RunPaused() | RunContinued():
                self.paused = isinstance(message, RunPaused)
            case StopRequested() | RunResumed():
                self.stopping = isinstance(message, StopRequested)
            case SynthesizerSwapped():
                self.swapped = message
            case SignalSettled(synthesizer=name) if self.swapped is not None:
                if name == self.swapped.synthesizer:
                    self.swapped = None
            case _:
                pass
