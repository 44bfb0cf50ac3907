"""Typed patterns in a policy's calls: tools, their order, their arguments, and their errors.

| kind             | one pattern is                          | for example                         |
|------------------|-----------------------------------------|-------------------------------------|
| `tool`           | the tool of a call, with any answer     | `mv`                                |
| `tool_bigram`    | the tools of two successive calls       | `cd > mv`                           |
| `argument_shape` | tool and arguments of a call that works | `mv(destination:path, source:name)` |
| `error_class`    | tool and masked error of one that fails | `mv: cannot move *: File exists`    |

Successive calls are in the same turn. A failed call has no shape, because a misspelt argument is an
error and no way to use the tool. A text that is not a call, or that calls an unknown tool, has its
own error class and counts as no tool. CoEvolve (arXiv 2604.15840) does not define its patterns.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from itertools import pairwise
from typing import Any, cast

from coevolve.environments.tools.calls import Call, NotACallError, RefusedCallError, parse_call
from coevolve.signals.history import PatternKey
from protocols.evolution import PatternCount
from protocols.rollouts import Action

MAX_PATTERN_CHARS = 120

MASKED_CHARS = 1_000
"""Maximum characters of an error in which parts are masked; the expressions may take its square."""

UNPARSABLE = "not a call"
UNKNOWN = "refused"

CountPatterns = Callable[[Sequence[Action], Container[str], Counter[PatternKey]], None]
"""Adds the patterns in the actions of one rollout, with these tools, to the counts."""

_EXECUTOR_PREFIX = "Error during execution: "
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_FILE_OR_PATH = re.compile(r"\S*(?:/|\w\.\w)\S*")
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:[.,]\d+)*(?!\.?\w)")
_DIGITS = re.compile(r"\d+")
_REPEATED_MASK = re.compile(r"[*](?:[\s/]*[*])+")


def patterns_of(
    rollouts: Iterable[Sequence[Action]], tools: Container[str], count: CountPatterns | None = None
) -> tuple[PatternCount, ...]:
    """Count the patterns in the actions of some rollouts; ordered by kind and pattern.

    Args:
        rollouts: The actions of each rollout, in order.
        tools: Names that count as tools.
        count: Adds the patterns of one rollout; default: those of its calls.
    """
    counts: Counter[PatternKey] = Counter()
    for actions in rollouts:
        (count or _count)(actions, tools, counts)
    return tuple(
        PatternCount(kind=kind, pattern=pattern, count=count)
        for (kind, pattern), count in sorted(counts.items())
    )


def argument_shape(call: Call) -> str:
    """Return the tool with its arguments' names and the classes of their values."""
    shapes = [f"{position}:{_shape(value)}" for position, value in enumerate(call.positional)]
    shapes += [f"{name}:{_shape(value)}" for name, value in sorted(call.named.items())]
    return shortened(f"{call.tool}({', '.join(shapes)})")


def error_class(call: Call, result: str) -> str:
    """Return the tool and its error message, without the parts that are specific to the call."""
    text = re.sub(rf"^\w+\.{call.tool}\(\) ", "", _complaint(result))
    for value in sorted(_strings(call), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "*", text)
    text = _masked(text)
    return shortened(text if text.startswith(f"{call.tool}:") else f"{call.tool}: {text}")


def _count(actions: Sequence[Action], tools: Container[str], counts: Counter[PatternKey]) -> None:
    """Add the patterns of one rollout."""
    called = [(action, *_read(action, tools)) for action in actions]
    for action, call, fault in called:
        if call is None:
            counts["error_class", fault] += 1
            continue
        counts["tool", call.tool] += 1
        if action.failed:
            counts["error_class", error_class(call, action.result)] += 1
        else:
            counts["argument_shape", argument_shape(call)] += 1
    for (first, before, _), (second, after, _) in pairwise(called):
        if before is not None and after is not None and first.turn == second.turn:
            counts["tool_bigram", f"{before.tool} > {after.tool}"] += 1


def _read(action: Action, tools: Container[str]) -> tuple[Call | None, str]:
    """Return the call, or the error class of a text that is not a call."""
    try:
        return parse_call(action.text, tools), ""
    except NotACallError:
        return None, UNPARSABLE
    except RefusedCallError as error:
        return None, shortened(f"{UNKNOWN}: {_masked(str(error))}")


def _shape(value: object) -> str:
    match value:
        case str():
            return _string_shape(value)
        case None:
            return "none"
        case list() | tuple():
            shapes = {_shape(each) for each in cast("Sequence[object]", value)}
            return f"list[{shapes.pop() if len(shapes) == 1 else 'mixed' if shapes else ''}]"
        case _:
            return type(value).__name__


def _string_shape(text: str) -> str:
    if not text:
        return "empty"
    if "/" in text or text in (".", ".."):
        return "path"
    if _NUMBER.fullmatch(text):
        return "number"
    return "text" if any(character.isspace() for character in text) else "name"


def _strings(call: Call) -> set[str]:
    """Return the texts among the arguments, which an answer may repeat."""
    values = (*call.positional, *call.named.values())
    return {value for value in values if isinstance(value, str) and value.strip()}


def _complaint(result: str) -> str:
    """Return the error message in a simulator's answer."""
    if result.startswith("{"):
        try:
            answer: Any = json.loads(result)
        except (ValueError, RecursionError):
            return result
        if isinstance(answer, dict) and "error" in answer:
            return str(cast("dict[str, Any]", answer)["error"])
    return result.removeprefix(_EXECUTOR_PREFIX)


def _masked(text: str) -> str:
    """Return the beginning of ``text``, with quoted parts, files, paths and numbers masked."""
    text = _NUMBER.sub("#", QUOTED.sub("*", text[:MASKED_CHARS]))
    text = _DIGITS.sub("#", _FILE_OR_PATH.sub(_keep_punctuation, text))
    return " ".join(_REPEATED_MASK.sub("*", text).split())


def _keep_punctuation(found: re.Match[str]) -> str:
    word = found.group()
    return "*" + word[len(word.rstrip(".,:;)")) :]


def shortened(text: str) -> str:
    """Return the text, cut to `MAX_PATTERN_CHARS`."""
    return text if len(text) <= MAX_PATTERN_CHARS else f"{text[: MAX_PATTERN_CHARS - 1]}…"
