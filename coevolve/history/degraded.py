"""What a run goes on without: optional parts and models that rest, and units that were given up."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from coevolve.journal.codec import topics_of
from protocols.control import (
    CopyFailed,
    DeadLetter,
    FollowersFail,
    LetterAnswered,
    NodesTooSmall,
    PartsRest,
    RunResumed,
)
from protocols.evolution import (
    ModelAnswers,
    ModelRests,
    ReaderAnswers,
    ReaderRests,
    SynthesizerSwapped,
)
from protocols.journal import Message

TOPICS = topics_of(
    *(PartsRest, FollowersFail, NodesTooSmall, RunResumed, DeadLetter, LetterAnswered),
    *(ModelRests, ModelAnswers, ReaderRests, ReaderAnswers, SynthesizerSwapped),
)

log = structlog.get_logger()


@dataclass
class Degraded:
    """The state so far; `fold` takes the records in journal order, each once."""

    parts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Optional parts that rest -> why."""

    followers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Trackers that fail -> why."""

    model: ModelRests | None = None
    """Why the synthesizer's model rests; None if it answers."""

    reader: ReaderRests | None = None
    """Why the reader of instructions rests; None if it answers."""

    too_small: tuple[str, ...] = ()
    """A sentence for each node that has no room for a rollout engine."""

    letters: int = 0
    """Dead letters that no retry has done."""

    def fold(self, message: Message) -> None:
        """Add one record; records of other kinds change nothing."""
        match message:
            case PartsRest(causes=causes):
                self.parts = causes
            case FollowersFail(causes=causes):
                self.followers = causes
            case NodesTooSmall(reasons=reasons):
                self.too_small = reasons
            case RunResumed():
                self.too_small, self.followers = (), {}
            case DeadLetter():
                self.letters += 1
            case LetterAnswered(done=True):
                self.letters -= 1
            case _:
                self._fold_models(message)

    def _fold_models(self, message: Message) -> None:
        match message:
            case ModelRests():
                self.model = message
            case ModelAnswers() | SynthesizerSwapped():
                self.model = None
            case ReaderRests():
                self.reader = message
            case ReaderAnswers():
                self.reader = None
            case _:
                pass

    def lines(self) -> list[str]:
        """Return a sentence for each thing that rests, and about the dead letters."""
        lines = [f"{part} rests, and is tried again: {why}" for part, why in self.parts.items()]
        lines += [
            f"{name} fails, and is tried again: {why}" for name, why in self.followers.items()
        ]
        if self.model is not None:
            lines.append(
                f"the synthesizer's model {self.model.synthesizer} rests, and signals wait until "
                f"it answers: {self.model.reason}"
            )
        if self.reader is not None:
            lines.append(
                "the reader of instructions rests, and candidates wait until it answers: "
                f"{self.reader.reason}"
            )
        lines.extend(self.too_small)
        if self.letters:
            lines.append(f"dead letters: {self.letters}; see `attach letters`")
        return lines


def copy_failure(failure: CopyFailed) -> str:
    """Return a sentence about a copy of the run that was not made."""
    return f"not copied: {failure.reason}; the run tries again after its next checkpoint"


def log_change(message: Message) -> None:
    """Print what changes the state as an event, and nothing for other messages."""
    match message:
        case PartsRest(causes=causes) if causes:
            log.warning("parts_rest", causes=causes)
        case FollowersFail(causes=causes) if causes:
            log.warning("followers_fail", causes=causes)
        case NodesTooSmall(reasons=reasons) if reasons:
            log.warning("nodes_too_small", reasons=reasons)
        case ModelRests(synthesizer=name, reason=reason):
            log.warning("model_rests", synthesizer=name, reason=reason)
        case ModelAnswers(synthesizer=name):
            log.info("model_answers", synthesizer=name)
        case ReaderRests(reason=reason):
            log.warning("reader_rests", reason=reason)
        case ReaderAnswers():
            log.info("reader_answers")
        case DeadLetter(unit=unit, reason=reason):
            log.warning("dead_letter", unit=unit, reason=reason)
        case _:
            pass
