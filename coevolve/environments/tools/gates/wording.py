"""Compares the instructions with the reference: nothing omitted, nothing invented.

Of any grammar, this module knows only that names may be in quotation marks. Text in quotation marks
has to match exactly; `tools.gates.forms` says what other forms of a value count.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from coevolve.environments.tools.gates.forms import (
    code_parts,
    digits,
    is_composed,
    is_date,
    plain,
    says,
    shows,
    words,
)
from coevolve.environments.tools.gates.reading import Argument, Read, ReadCall, leaves
from coevolve.environments.tools.task import ToolTurn
from coevolve.environments.tools.toolset import ToolDocument

QUOTED = re.compile(
    r"(?<!\w)'((?:[^'\n]|(?<=\w)'(?=\w))+)'(?!\w)"
    r'|"([^"\n]+)"'
    r"|`([^`\n]+)`|“([^”\n]+)”|(?<!\w)\u2018([^\u2019\n]+)\u2019(?!\w)"
)
"""Text in quotation marks."""

_WHO = r"(?:ids?|use\w* ?names?|names?|passwords?|e-?mails?|accounts?|tokens?)"
_OWN = re.compile(
    rf"(?:\b|_){_WHO}(?: (?:is|are|as|being))?[ :=]*(?:{QUOTED.pattern})", re.IGNORECASE
)
_CONDITION = re.compile(
    r"\b(?:than|under|over|below|above|at (?:least|most)|up to|within|around|about|exceeds?|between"
    r"|approximately) \$?\d[\d,.]*|\b\d+ (?:decimal|significant)\b"
    r"|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? \d{1,2}[a-z]*(?:,? \d{4})?",
    re.IGNORECASE,
)
_FILE = re.compile(r"[\w-]+(\.\w+)+")
_DIGITS = re.compile(r"\d+(?:\.\d+)?")
_PUNCTUATION = " .,;:!?"


class Unsaid(NamedTuple):
    """A value of a call that no text gives."""

    turn: int
    call: int
    """Number of the call within its turn."""

    position: int
    """Number of the argument within its call."""

    name: str
    value: object

    def text(self) -> str:
        """Return the fault in words."""
        return f"turn {self.turn + 1} does not say {self.name}={self.value!r}"


class Unused(NamedTuple):
    """A quotation, or a number, that no call takes."""

    turn: int
    value: str | float

    def text(self) -> str:
        """Return the fault in words."""
        shown = repr(self.value) if isinstance(self.value, str) else f"{self.value:g}"
        return f"turn {self.turn + 1} speaks of {shown}, which no call takes"


def unsaid(
    turns: Sequence[ToolTurn],
    read: Read,
    answers: Sequence[Sequence[str]],
    tools: Mapping[str, ToolDocument],
) -> Iterator[Unsaid]:
    """Yield the values that no text gives before their call.

    The texts are this and earlier instructions, earlier answers, and the documentation of the
    parameter, also in other tools: its default, and the values, units and numbers that it lists.
    Booleans, flags, single characters and paths of dots are said by other words, so they count as
    given.
    """
    said, seen = "", ""
    for number, (turn, calls) in enumerate(zip(turns, read, strict=True)):
        said += f"\n{turn.instruction}"
        for place, (call, answer) in enumerate(zip(calls, answers[number], strict=True)):
            for position, argument in enumerate(call.arguments):
                for name, value in _named_values(argument):
                    if not (lists(tools, call.tool, name, value) or is_given(value, said, seen)):
                        yield Unsaid(number, place, position, argument.name, value)
            seen += f"\n{answer}\n{plain(answer)}"


def _named_values(argument: Argument) -> Iterator[tuple[str, object]]:
    """Yield the plain values of an argument, those of an object with their keys as names."""
    if not isinstance(argument.value, dict):
        yield from ((argument.name, value) for value in leaves(argument.value))
        return
    for key, entry in cast("dict[object, object]", argument.value).items():
        yield from ((str(key), value) for value in leaves(entry))


def is_given(value: object, said: str, seen: str) -> bool:
    """Return whether instructions (``said``) or answers (``seen``) have the value, or its parts."""
    return says(said, value) or shows(seen, value) or is_composed(value, f"{said}\n{seen}")


def unused(turns: Sequence[ToolTurn], read: Read) -> Iterator[Unused]:
    """Yield the quotations and numbers that are no argument of any call so far.

    Numbers outside quotations count only if the turn's calls have numbers as arguments. Who
    somebody is (*user ID "7"*), the name of a tool that the turn calls, bounds (*over 20*),
    precisions and dates in words do not count.
    """
    texts: set[str] = set()
    for number, (turn, calls) in enumerate(zip(turns, read, strict=True)):
        texts.update(map(str, values_of(calls)))
        counted = {float(run) for text in texts for run in _DIGITS.findall(text)}
        called = {call.tool for call in calls}
        for quoted in quotations(_OWN.sub(" ", turn.instruction)) if calls else ():
            if not (quoted in called or _is_argument(quoted, texts)):
                yield Unused(number, quoted)
        if any(map(_is_number, values_of(calls))):
            outside = _CONDITION.sub(" ", QUOTED.sub(" ", turn.instruction))
            for extra in sorted(digits(outside) - digits("\n".join(texts)) - counted):
                yield Unused(number, extra)


def values_of(calls: Iterable[ReadCall]) -> Iterator[object]:
    """Yield the plain values of all arguments."""
    for call in calls:
        for argument in call.arguments:
            yield from leaves(argument.value)


def quotations(text: str) -> Iterator[str]:
    """Yield what a text has in quotation marks."""
    for match in QUOTED.finditer(text):
        yield next(group for group in match.groups() if group is not None)


def _is_argument(quoted: str, texts: set[str]) -> bool:
    """Return whether a quotation is an argument, a list of such, or a form or part of one."""
    bare = quoted.strip(_PUNCTUATION)
    parts = [part for part in re.split(r"[/,]\s*", bare) if part]
    if quoted in texts or bare in texts or (parts and all(part in texts for part in parts)):
        return True
    if any(says(text, bare) for text in texts if not _FILE.fullmatch(text)):
        return True
    if any(bare in code_parts(text) for text in texts):
        return True
    return any(_is_form(bare, text) or is_date(bare, text) for text in texts)


def _is_form(quoted: str, text: str) -> bool:
    """Return whether a sentence is the form of another: most of its pairs of words are the same."""
    pairs = list(itertools.pairwise(words(quoted).split()))
    spoken = words(text)
    same = sum(f" {one} {other} " in spoken for one, other in pairs)
    return len(pairs) > 1 and 2 * same >= len(pairs)


def lists(tools: Mapping[str, ToolDocument], tool: str, name: str, value: object) -> bool:
    """Return whether the parameter's documentation lists a value, or other words say it."""
    if isinstance(value, bool) or value is None:
        return True
    documented = tools[tool].parameters["properties"].get(name, {})
    if value == documented.get("default") or value in documented.get("enum", ()):
        return True
    if isinstance(value, str) and (
        len(value) <= 1 or not value.strip("./") or re.fullmatch(r"-+\w+", value)
    ):
        return True
    parameters = (each.parameters["properties"].get(name, {}) for each in tools.values())
    return any(says(each.get("description", ""), value) for each in parameters)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
