"""Compares the instructions with the reference: nothing omitted, nothing invented.

Of any grammar, this module knows only that names are in quotation marks. Quoted text has to match
exactly; other text need not (upper and lower case are equal, ``two`` is 2).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from coevolve.environments.tools.gates.reading import ReadCall, leaves
from coevolve.environments.tools.task import ToolTurn
from coevolve.environments.tools.toolsets import ToolDocument

_QUOTED = re.compile(
    r"(?<!\w)'((?:[^'\n]|(?<=\w)'(?=\w))+)'(?!\w)"
    r'|"([^"\n]+)"'
    r"|`([^`\n]+)`|“([^”\n]+)”|(?<!\w)\u2018([^\u2019\n]+)\u2019(?!\w)"
)
_OPEN = re.compile(r"(?<![^\s(\[])'(?=\w)|[\"`“]")
_NUMBER = re.compile(
    r"(?<![\w.\-/:])([-+]?\d+(?:,\d{3})*(?:\.\d+)?)(?:st|nd|rd|th)?(?![\w\-/:]|\.\d)"
)
_SPELLED = (
    *("zero", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
_PUNCTUATION = " .,;:!?"

Read = Sequence[Sequence[ReadCall]]
"""The reference's calls by turn."""


def left_open(instruction: str) -> bool:
    """Return whether a quotation begins that does not end."""
    return _OPEN.search(_QUOTED.sub(" ", instruction)) is not None


def omitted(
    turns: Sequence[ToolTurn],
    read: Read,
    answers: Sequence[Sequence[str]],
    tools: Mapping[str, ToolDocument],
) -> str:
    """Return the first value that the policy cannot know; empty if it can know all.

    The policy knows the text of this and earlier instructions, earlier answers, and the values that
    the tool's documentation lists. Flags, single characters and paths of dots count as known.
    """
    said, seen = "", ""
    for number, (turn, calls) in enumerate(zip(turns, read, strict=True)):
        said += f"\n{turn.instruction}"
        for call, answer in zip(calls, answers[number], strict=True):
            for argument in call.arguments:
                documented = tools[call.tool].parameters["properties"].get(argument.name, {})
                for value in leaves(argument.value):
                    if not (_is_implied(value, documented) or _known(value, said, seen)):
                        return f"turn {number + 1} does not say {argument.name}={value!r}"
            seen += f"\n{answer}\n{_plain(answer)}"
    return ""


def invented(turns: Sequence[ToolTurn], read: Read) -> str:
    """Return the first quotation or number that is no argument; empty if all are arguments.

    Numbers outside quotations count only if the turn's calls have numbers as arguments.
    """
    for number, (turn, calls) in enumerate(zip(turns, read, strict=True)):
        values = [
            value for call in calls for argument in call.arguments for value in leaves(argument[1])
        ]
        texts = {str(value) for value in values if not isinstance(value, bool)}
        for quoted in _quoted(turn.instruction):
            if not _is_argument(quoted, texts):
                return f"turn {number + 1} speaks of {quoted!r}, which no call takes"
        if any(_is_number(value) for value in values):
            outside = _QUOTED.sub(" ", turn.instruction)
            extra = _digits(outside) - _digits("\n".join(texts))
            if extra:
                return f"turn {number + 1} speaks of {min(extra):g}, which no call takes"
    return ""


def _quoted(instruction: str) -> Iterator[str]:
    for match in _QUOTED.finditer(instruction):
        yield next(group for group in match.groups() if group is not None)


def _is_argument(quoted: str, texts: set[str]) -> bool:
    plain = quoted.strip(_PUNCTUATION)
    return (
        quoted in texts
        or plain in texts
        or ("/" in quoted and all(part in texts for part in plain.strip("/").split("/")))
    )


def _is_implied(value: object, documented: Mapping[str, Any]) -> bool:
    """Return whether ``value`` need not be given; ``documented`` describes its parameter."""
    if isinstance(value, bool) or value is None or value == documented.get("default"):
        return True
    if not isinstance(value, str):
        return False
    trivial = len(value) <= 1 or not value.strip("./") or re.fullmatch(r"-+\w+", value)
    return bool(trivial) or f'"{value}"' in documented.get("description", "")


def _known(value: object, said: str, seen: str) -> bool:
    if _is_number(value):
        number = float(cast("int | float", value))
        return number in _numbers(said) or number in _digits(seen) or _says(seen, str(value))
    text = str(value)
    if _says(said, text) or _says(seen, text):
        return True
    parts = [part for part in text.split("/") if part.strip(".")]
    return len(parts) > 1 and all(_says(said, part) or _says(seen, part) for part in parts)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _says(text: str, value: str) -> bool:
    """Return whether ``value`` occurs in ``text`` and is not part of a longer name."""
    wanted = re.escape(" ".join(value.lstrip("#@").split()))
    name = rf"(?<![\w-]){wanted}(?![\w-]|\.\w)"
    return re.search(name, " ".join(text.split()), re.IGNORECASE) is not None


def _numbers(text: str) -> set[float]:
    words = set(re.findall(r"\w+", text.lower()))
    return _digits(text) | {float(n) for n, word in enumerate(_SPELLED) if word in words}


def _digits(text: str) -> set[float]:
    return {float(match.replace(",", "")) for match in _NUMBER.findall(text)}


def _plain(answer: str) -> str:
    """Return the plain values in a JSON answer as text."""
    try:
        return "\n".join(map(str, leaves(json.loads(answer))))
    except (ValueError, RecursionError):
        return answer
