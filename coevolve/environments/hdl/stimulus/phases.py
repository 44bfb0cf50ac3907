"""Divides a stimulus program into phases, each with a line that describes it.

A phase sets up inputs and then lets time pass; a reset or a repetition ends it.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import assert_never

import msgspec

from coevolve.environments.hdl.stimulus.program import (
    ApplyReset,
    Await,
    Chance,
    Change,
    Drive,
    Randomize,
    Repeat,
    Statement,
    Step,
)

TITLE_CHARACTERS = 88

WAYS = {"inc": "increment", "rol": "rotate", "inv": "invert", "once": "draw"}


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """Neighbouring statements that belong together."""

    title: str
    statements: tuple[Statement, ...]


def phases(statements: Sequence[Statement]) -> Iterator[Phase]:
    """Yield the statements in phases, in order."""
    gathered: list[Statement] = []
    for statement in statements:
        if gathered and _begins(statement, gathered[-1]):
            yield _phase(gathered)
            gathered = []
        gathered.append(statement)
    if gathered:
        yield _phase(gathered)


def _begins(statement: Statement, before: Statement) -> bool:
    """Return whether a phase starts between two neighbours."""
    if isinstance(before, Step | Await):
        return not isinstance(statement, Step | Await)
    return isinstance(before, ApplyReset | Repeat)


def _phase(statements: Sequence[Statement]) -> Phase:
    title = _title(statements) + "."
    if len(title) > TITLE_CHARACTERS:
        title = title[:TITLE_CHARACTERS].rpartition(" ")[0].rstrip(",;:") + " ..."
    return Phase(title=title[:1].upper() + title[1:], statements=tuple(statements))


def _title(statements: Iterable[Statement]) -> str:
    parts: list[str] = []
    for verb, group in groupby(map(_verb_and_object, statements), key=lambda each: each[0]):
        parts.append(f"{verb} {', '.join(text for _, text in group)}".strip())
    return "; ".join(parts)


def _verb_and_object(statement: Statement) -> tuple[str, str]:
    """Return a statement's verb, which neighbours share, and its object."""
    match statement:
        case Drive(port=port, word=word):
            return "set", f"{port} = {word if word < 256 else hex(word)}"
        case Randomize(port=port):
            return "randomize", port
        case Chance(port=port, eighths=eighths):
            return "raise at random", f"{port} ({eighths} of 8 cycles)"
        case Change(port=port, way=way):
            return WAYS[way], port
        case ApplyReset(cycles=cycles):
            return "reset", f"for {_cycles(cycles)}"
        case Step(cycles=cycles):
            return "", f"for {_cycles(cycles)}"
        case Await(port=port, word=word, cycles=cycles):
            return "", f"until {port} = {word} (at most {_cycles(cycles)})"
        case Repeat(times=times, body=body):
            return "", f"{times} times: {_title(body)}"
        case _:
            assert_never(statement)


def _cycles(count: int) -> str:
    return f"{count} cycle" + "s" * (count > 1)
