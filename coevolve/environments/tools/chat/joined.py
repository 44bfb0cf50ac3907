"""Joins the calls of a reference to messages, where no call needs the answer to another."""

from collections.abc import Iterator, Sequence
from typing import cast

from coevolve.environments.tools.chat.tools import named_arguments
from coevolve.environments.tools.task import ToolTurn

Played = tuple[tuple[str, ...], tuple[str, ...]]
"""Calls of one message, and their results."""


def joined(turn: ToolTurn, classes: Sequence[str], known: str) -> Iterator[Played]:
    """Yield the calls of a turn, message by message.

    A call joins the message before it if all its values stand in ``known``, the text that the
    policy has read when it writes that message. ``turn`` has recorded results.
    """
    calls: list[str] = []
    results: list[str] = []
    read = known.casefold()
    for call, result in zip(turn.reference, turn.results, strict=True):
        values = _values(named_arguments(call, classes)[1])
        if calls and not all(value.casefold() in read for value in values):
            yield tuple(calls), tuple(results)
            read += "\n".join(results).casefold()
            calls, results = [], []
        calls.append(call)
        results.append(result)
    if calls:
        yield tuple(calls), tuple(results)


def _values(value: object) -> Iterator[str]:
    """Yield the texts and numbers in an argument."""
    if isinstance(value, dict | list | tuple):
        inner = cast("dict[str, object] | Sequence[object]", value)
        for each in inner.values() if isinstance(inner, dict) else inner:
            yield from _values(each)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)
