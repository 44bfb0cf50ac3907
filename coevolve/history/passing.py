"""What a run is in for a while: a pause, a swap of the synthesizer, a stall, its stop."""

from dataclasses import dataclass

from coevolve.journal.codec import TOPICS as EVERY_TOPIC
from coevolve.journal.codec import topic_of, topics_of
from protocols.control import (
    CopyFailed,
    FollowersFail,
    PartFailed,
    PartsRest,
    RunContinued,
    RunPaused,
    RunResumed,
    Stalled,
    StartMeasured,
    StateSnapshot,
    StopRequested,
    UnitsBegan,
)
from protocols.evolution import (
    GroupSummary,
    ModelRests,
    ReaderRests,
    SignalSettled,
    SwapRefused,
    SynthesizerSwapped,
)
from protocols.journal import Message
from protocols.learning import GroupDiscarded
from protocols.rollouts import FailedRollout, RolloutRequest

TOPICS = topics_of(
    *(RunPaused, RunContinued, RunResumed, StopRequested, Stalled),
    *(SynthesizerSwapped, SwapRefused, SignalSettled),
)

PROGRESS = tuple(
    topic
    for topic in EVERY_TOPIC
    if topic
    not in topics_of(
        *(Stalled, PartFailed, PartsRest, FollowersFail, CopyFailed, ModelRests, ReaderRests),
        *(RolloutRequest, UnitsBegan, FailedRollout, GroupDiscarded, GroupSummary),
        *(StartMeasured, StateSnapshot),
    )
)
"""Topics whose records show that the run goes on. The others tell only what fails, or belong to the
circle in which a run goes while every rollout fails: a group is discarded and another requested."""

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
    """The alarm about a run without progress, until a record of `PROGRESS`."""

    def fold(self, message: Message) -> None:
        self.stalled = stall_after(message, self.stalled)
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


def stall_after(message: Message, stalled: Stalled | None) -> Stalled | None:
    """Return the alarm that holds after a record, given the one that held before."""
    if isinstance(message, Stalled):
        return message
    return None if topic_of(type(message)) in PROGRESS else stalled
