"""When things happened in a run: steps, scores, and whatever went otherwise than planned."""

from collections import Counter
from dataclasses import dataclass, field

from coevolve.delivery.alarms import sentence
from coevolve.journal.codec import topics_of
from coevolve.runs.teaching import sentence as regression
from protocols.control import (
    PartFailed,
    RunContinued,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
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
    WeightSyncAlarm,
)

_PLAIN: dict[type[Message], str] = {
    RunStarted: "started",
    RunResumed: "resumed",
    StopRequested: "asked to stop",
    RunPaused: "paused",
    RunContinued: "continued",
}

TOPICS = topics_of(
    *_PLAIN,
    RunFinished,
    Stalled,
    PartFailed,
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
    """Something that a person should know of."""

    time_ns: int
    step: int
    """Newest step that was taken before."""

    what: str
    details: str


@dataclass
class Timeline:
    """Fold records into this in journal order; each changes it once."""

    started_ns: int = 0
    newest_ns: int = 0
    steps: list[StepReport] = field(default_factory=list[StepReport])
    stepped_ns: list[int] = field(default_factory=list[int])
    """When each of ``steps`` was recorded."""

    evaluations: dict[int, Evaluation] = field(default_factory=dict[int, Evaluation])
    """By version; left out are those of which a machine's failure left nothing."""

    discarded: Counter[str] = field(default_factory=Counter[str])
    happenings: list[Happening] = field(default_factory=list[Happening])
    stalls: int = 0
    finished: RunFinished | None = None

    @property
    def step(self) -> int:
        """Newest step that was taken."""
        return self.steps[-1].step if self.steps else 0

    def fold(self, message: Message, time_ns: int) -> None:
        """Take in one record; Unix time at which it was recorded."""
        self.started_ns = self.started_ns or time_ns
        self.newest_ns = max(self.newest_ns, time_ns)
        match message:
            case StepReport():
                self.steps.append(message)
                self.stepped_ns.append(time_ns)
            case Evaluation(scores=scores) if scores:
                self.evaluations[message.version] = message
            case GroupDiscarded():
                self.discarded[message.reason] += 1
            case RunFinished():
                self.finished = message
            case Stalled():
                self.stalls += 1
                self._note(message, time_ns)
            case _:
                self._note(message, time_ns)

    def _note(self, message: Message, time_ns: int) -> None:
        told = _told(message)
        if told is not None:
            what, details = told
            self.happenings.append(Happening(time_ns, self.step, what, details))


def _told(message: Message) -> tuple[str, str] | None:
    match message:
        case Stalled():
            return f"nothing moved for {message.quiet_s:.0f} s", "; ".join(message.waiting)
        case PartFailed():
            return f"{message.part} was started again", message.reason
        case WeightSyncAlarm(engine=engine):
            return f"{engine} does not serve what was published", sentence(message)
        case PolicyRegressed(version=version):
            return f"version {version} lost what an earlier one could do", regression(message)
        case SynthesizerSwapped():
            return f"{message.synthesizer} synthesizes from here", ""
        case SwapRefused():
            return "another synthesizer was refused", message.reason
        case _:
            return (_PLAIN[type(message)], "") if type(message) in _PLAIN else None
