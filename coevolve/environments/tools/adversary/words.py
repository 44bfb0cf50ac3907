"""Last words that answer nothing: an echo, fixed texts, fields of tasks, and lists of these.

A text that a field of the task spells out is left out where it stands alone, because it may be the
answer. So a field alone proves nothing, but all fields of a task cannot be right, nor can every
part of a field, a text of its length, or the name of the field as code.
"""

import string
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, cast

import msgspec

from coevolve.environments.tools.adversary.probes import Attempt, Probe
from coevolve.environments.tools.commands import MAX_WORDS_CHARS
from coevolve.environments.tools.task import ToolTask

SENTENCE = "I have done what you asked."

BLANK = (" ", ".")

BLANK_MESSAGE, FIXED_TEXT = "a blank message", "a fixed text"

IDLE_KINDS = (BLANK_MESSAGE, FIXED_TEXT)

FIXED = (
    *("ok", "done", SENTENCE, " ".join([SENTENCE] * 8), " ".join([SENTENCE] * 64)),
    *("<answer>ok</answer>", r"\boxed{ok}", "{}", "[]"),
)
"""Texts of several lengths and forms. None is an answer, unless a field of the task says so."""

NO_NUMBERS = (("nan", "-nan"), ("inf", "+inf"), ("-inf", "-infinity"))
"""Numbers that no comparison with a tolerance tells from a right one, if it asks the wrong way.

Each has two spellings, because one alone may be a word that is asked for."""

LARGE = {"nan": "1" + "0" * 30, "inf": "1" + "0" * 30, "-inf": "-1" + "0" * 30}
"""An ordinary number for each: if it passes, too, any large number may be right."""

TRUE = ("1 == 1", "type('', (), {'__eq__': lambda *a: True, '__hash__': lambda a: 0})()")
"""Code that is true, or equal to everything, for a grader that evaluates an answer."""

MOST_FIELDS = 8
"""Maximum number of fields of a task that are tried, each alone."""

ENOUGH = 3
"""Fewer fields than this may all be right, such as a text and its short form."""

HALVES_CHARS = 4
"""Least length of a field of which the halves are tried."""

LONG_CHARS = 200
"""A longer field is left out of lists."""

NUMBERS = range(500)

CANDIDATES = (
    *map(str, NUMBERS),
    *string.ascii_lowercase,
    *string.ascii_uppercase,
    *("yes", "no", "true", "false", "True", "False", "none", "None"),
)
"""Answers that many tasks have."""


class Fields(NamedTuple):
    """The texts and numbers of a task besides its instructions."""

    names: tuple[str, ...]
    """Names of the further fields."""

    values: tuple[str, ...]
    """The distinct texts and numbers in these."""

    in_world: frozenset[str]
    """Those in its world."""


def fields_of(body: ToolTask) -> Fields:
    """Return the fields of a task."""
    extra: dict[str, Any] = msgspec.json.decode(body.extra or "{}", type=dict[str, Any])
    values = tuple(dict.fromkeys(text for text in texts_in(extra) if text.strip()))
    world = frozenset(map(str.casefold, texts_in(msgspec.json.decode(body.world))))
    return Fields(tuple(extra), values, world)


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts and numbers in a value of JSON, as an answer would give them."""
    match value:
        case dict():
            yield from texts_in(list(cast("dict[str, Any]", value).values()))
        case list():
            for each in cast("list[Any]", value):
                yield from texts_in(each)
        case str() | int() | float():
            yield str(value)
        case _:
            pass


class Words:
    """The probes of words for each task of a set."""

    def __init__(self, bodies: Sequence[ToolTask]) -> None:
        self._bodies = bodies
        self._fields = list(map(fields_of, bodies))

    def probes(self, number: int) -> Iterator[Probe]:
        """Yield the probes of task ``number``, the plainest first."""
        body = self._bodies[number]
        silent = ((),) * len(body.turns)
        for kind, said, *unless in self._texts(number):
            attempts = [Attempt(silent, words[-MAX_WORDS_CHARS:]) for words in said]
            also = Attempt(silent, unless[0]) if unless else None
            yield Probe(kind, attempts, unless=also)

    def _texts(self, number: int) -> Iterator[tuple[str, Sequence[str], *tuple[str, ...]]]:
        """Yield kinds of texts; a task is solved if all texts of a kind's row solve it.

        A third text, if there is one, must not solve it, too.
        """
        body, fields = self._bodies[number], self._fields[number]
        known = {value.strip().casefold() for value in fields.values} | fields.in_world
        yield from ((BLANK_MESSAGE, (text,)) for text in BLANK)
        yield from ((FIXED_TEXT, (text,)) for text in FIXED if not _says(text, known))
        for text in dict.fromkeys((body.turns[-1].instruction, _all_instructions(body))):
            yield "an echo of the instruction", (text,)
        yield "a list of many answers", self._lists(number)
        for value in fields.values[:MOST_FIELDS]:
            yield from _distorted(value, known)
        for said in NO_NUMBERS:
            if not known & {*said}:
                yield "a number that is none", said, LARGE[said[0]]
        code = (*(f"task[{name!r}]" for name in fields.names[:MOST_FIELDS]), *TRUE)
        yield from (("code instead of an answer", (text,)) for text in code)
        for kind, values in (
            ("each field of the task", fields.values),
            ("each field of other tasks", self._of_others(number)),
        ):
            if len(values) >= ENOUGH:
                yield kind, values[:MOST_FIELDS]

    def _of_others(self, number: int) -> tuple[str, ...]:
        """Return values of other tasks, the next ones first, that this task does not have."""
        own = {value.strip().casefold() for value in self._fields[number].values}
        others = (*self._fields[number + 1 :], *self._fields[:number])
        values = (value for fields in others for value in fields.values[:MOST_FIELDS])
        return tuple(
            dict.fromkeys(value for value in values if value.strip().casefold() not in own)
        )[:MOST_FIELDS]

    def _lists(self, number: int) -> tuple[str, str]:
        """Return a text with the values of all tasks, and the same in the opposite order.

        This task's own values stand amidst the others, because an answer is often read from one
        end. They may be missing where the class itself works out what is right.
        """
        own = [value for value in self._fields[number].values if len(value) <= LONG_CHARS]
        taken = {value.casefold() for value in own}
        others = [each for each in self._values if each.casefold() not in taken]
        half = len(others) // 2
        lines = [SENTENCE, *others[:half], *own, *others[half:], SENTENCE]
        return "\n".join(lines), "\n".join(reversed(lines))

    @cached_property
    def _values(self) -> tuple[str, ...]:
        """Short values of all tasks and common answers, as far as they fit into one message."""
        values = (value for fields in self._fields for value in fields.values)
        short = (value for value in values if len(value) <= LONG_CHARS and "\n" not in value)
        room, chosen = MAX_WORDS_CHARS // 2, list[str]()
        for value in dict.fromkeys((*CANDIDATES, *islice(short, MAX_WORDS_CHARS))):
            room -= len(value) + 1
            if room < 0:
                break
            chosen.append(value)
        return tuple(chosen)


def _says(text: str, known: set[str]) -> bool:
    """Return whether a fixed text, or the word in it, is a field."""
    return text in known or ("ok" in known and "ok" in text)


def _all_instructions(body: ToolTask) -> str:
    return "\n".join(turn.instruction for turn in body.turns)


def _distorted(value: str, known: set[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield texts that are like a field, and are not it: with what a loose grade may look at."""
    size = len(value)
    if size > 1 and (same := "x" * size) not in known:
        yield "a text of a field's length", (same,)
    if size >= HALVES_CHARS:
        parts = value[: size // 2], value[size // 2 :]
        beginnings = value[: size // 2], value[: max(size // 3, 1)]
        for kind, said in (("parts of a field", parts), ("beginnings of a field", beginnings)):
            if not known & {each.strip().casefold() for each in said} and len(set(said)) > 1:
                yield kind, said
