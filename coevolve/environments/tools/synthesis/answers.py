"""The formats of a synthesizer model's answers, and the parser that finds them in its text.

Every answer is one JSON object. It may stand alone, in a code fence, or within prose, and after
thoughts in ``<think>`` tags (`coevolve.llm.reading`); the parser takes the last object that fits.
If none fits, it raises `UnusableAnswerError`, whose message goes to the model that is asked again.
"""

import json
from collections.abc import Iterator
from typing import Annotated, TypeVar

import msgspec

from coevolve.base.foreign import boundary
from coevolve.llm.reading import MOST_OBJECTS, end_of_object, without_thoughts
from protocols.evolution import Reflection

T = TypeVar("T")

MAX_TASKS = 6
"""Maximum tasks of one abstraction; further ones are left out."""

MAX_TURNS = 4
MAX_CALLS = 12
"""Maximum calls of one turn."""

MAX_CHARS = 2_000
"""Maximum characters of an instruction, and of each text in a reflection."""

MAX_ANSWER_CHARS = 200_000
"""Maximum characters of an answer that are read."""

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_CHARS)]


class UnusableAnswerError(ValueError):
    """The answer does not have the requested format; the message says why in one sentence."""


class Move(msgspec.Struct, frozen=True):
    """One step of an exploration: a call, or the end."""

    reason: str = ""
    action: str = ""
    """One Python call expression, as the model wrote it."""

    done: bool = False

    def __post_init__(self) -> None:
        """Refuse a step that has neither or both."""
        if self.done == bool(self.action.strip()):
            raise ValueError('needs either "action" with one call or "done": true')


class AbstractedTurn(msgspec.Struct, frozen=True):
    """An instruction of the user, and the calls that carry it out."""

    instruction: Annotated[str, msgspec.Meta(max_length=MAX_CHARS)]
    """May be empty if the turn reveals tools."""

    calls: Annotated[tuple[Text, ...], msgspec.Meta(max_length=MAX_CALLS)] = ()
    """None if the right thing is to ask, or to say that a tool is missing."""

    revealed: tuple[Text, ...] = ()
    """Tools that exist from this turn on."""


class AbstractedTask(msgspec.Struct, frozen=True):
    """A task that a model made from an exploration."""

    turns: Annotated[tuple[AbstractedTurn, ...], msgspec.Meta(min_length=1, max_length=MAX_TURNS)]
    withheld: tuple[Text, ...] = ()
    """Tools that do not exist until a turn reveals them."""

    description: str = ""
    """The subject of the task; it helps the model to think and is not kept."""


class _Abstraction(msgspec.Struct, frozen=True):
    tasks: tuple[AbstractedTask, ...]


class Judgement(msgspec.Struct, frozen=True):
    """A judge's answer about a task."""

    success: bool
    reason: str = ""


class Rebuilt(msgspec.Struct, frozen=True):
    """The calls that a reader writes for given instructions."""

    calls_by_turn: tuple[
        Annotated[tuple[Text, ...], msgspec.Meta(max_length=MAX_CALLS)],
        ...,
    ]
    finished: bool = True
    """False if the reader has to see what these calls answer before it can write the others."""


class Pick(msgspec.Struct, frozen=True):
    """A reader's answer about an instruction and several sets of calls."""

    picks: tuple[int, ...]
    """Numbers of the fitting sets, from 1 on; empty if none fits."""

    reason: str = ""


class _Reflected(msgspec.Struct, frozen=True):
    """A `Reflection` in which a single string may stand for a list."""

    summary: str
    failure_cause: str = ""
    instability_pattern: str = ""
    focus_pattern: tuple[str, ...] | str = ()
    avoid_pattern: tuple[str, ...] | str = ()


def read_reflection(answer: str) -> Reflection:
    """Return the reflection in ``answer``. Raises UnusableAnswerError."""
    found = read_as(answer, _Reflected)
    return Reflection(
        summary=found.summary[:MAX_CHARS],
        failure_cause=found.failure_cause[:MAX_CHARS],
        instability_pattern=found.instability_pattern[:MAX_CHARS],
        focus_pattern=_listed(found.focus_pattern),
        avoid_pattern=_listed(found.avoid_pattern),
    )


def read_move(answer: str) -> Move:
    """Return the step in ``answer``. Raises UnusableAnswerError."""
    return read_as(answer, Move)


def read_tasks(answer: str) -> tuple[AbstractedTask, ...]:
    """Return the first `MAX_TASKS` tasks in ``answer``. Raises UnusableAnswerError."""
    return read_as(answer, _Abstraction).tasks[:MAX_TASKS]


def read_judgement(answer: str) -> Judgement:
    """Return the judgement in ``answer``. Raises UnusableAnswerError."""
    return read_as(answer, Judgement)


def read_pick(answer: str, options: int) -> Pick:
    """Return the pick out of so many options in ``answer``. Raises UnusableAnswerError."""
    pick = read_as(answer, Pick)
    if not all(1 <= number <= options for number in pick.picks):
        raise UnusableAnswerError(f"picks needs numbers from 1 to {options}, found {pick.picks}")
    return pick


def read_rebuilt(answer: str, turns: int) -> Rebuilt:
    """Return the calls of so many turns in ``answer``. Raises UnusableAnswerError."""
    rebuilt = read_as(answer, Rebuilt)
    if (found := len(rebuilt.calls_by_turn)) != turns:
        raise UnusableAnswerError(
            f"calls_by_turn needs one list for each of {turns} turns, found {found}"
        )
    return rebuilt


def read_as(answer: str, kind: type[T]) -> T:
    """Return the last JSON object of ``answer`` that fits ``kind``. Raises UnusableAnswerError."""
    with boundary(UnusableAnswerError, "the answer cannot be read"):
        return _last_that_fits(answer, kind)


def _last_that_fits(answer: str, kind: type[T]) -> T:
    complaint = ""
    answer = without_thoughts(answer[:MAX_ANSWER_CHARS])
    for text in reversed(tuple(_objects(answer))):
        try:
            return msgspec.json.decode(text, type=kind)
        except (ValueError, RecursionError) as error:
            complaint = complaint or str(error)
    raise UnusableAnswerError(complaint or _why_no_object(answer))


def _objects(answer: str) -> Iterator[str]:
    """Yield every outermost JSON object of ``answer`` as text, in order."""
    start = answer.find("{")
    for _ in range(MOST_OBJECTS):
        if start < 0:
            return
        end = end_of_object(answer, start)
        if end:
            yield answer[start:end]
        start = answer.find("{", end or start + 1)


def _why_no_object(answer: str) -> str:
    start = answer.find("{")
    if start < 0:
        return "it holds no JSON object"
    try:
        json.JSONDecoder().raw_decode(answer, start)
    except (ValueError, RecursionError) as error:
        return f"its JSON object does not parse: {error}"
    return "it holds no JSON object that can be read"


def _listed(entries: tuple[str, ...] | str) -> tuple[str, ...]:
    entries = (entries,) if isinstance(entries, str) else entries
    return tuple(entry[:MAX_CHARS] for entry in entries if entry)
