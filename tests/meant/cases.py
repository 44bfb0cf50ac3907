"""Planted candidates: requests that mean what their reference does, and requests that do not.

The templates were written in natural English without a look at the gates. A case combines one of
them with a new world, so that twenty of a kind differ in wording, tools, names and values.
"""

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from coevolve.environments.tools.task import ToolTask, ToolTurn
from tests.meant.worlds import CLASSES, slots_of

Suite = Literal["filesystem", "functions"]
FOLDER = Path(__file__).parent
GOOD = "good"
"""Kind of the cases that should be admitted."""

WORLDS = 3
"""Cases of each template, each in a world of its own."""


@dataclass(frozen=True)
class Case:
    """A candidate of known quality."""

    kind: str
    """`GOOD`, or what is wrong with it."""

    body: ToolTask


def cases(suite: Suite, worlds: int = WORLDS) -> Iterator[Case]:
    """Yield the cases of a suite, ``worlds`` for each template, always the same."""
    for row in _rows(suite):
        for number in range(worlds):
            yield Case(
                row.kind, _body(row, random.Random(f"{row.instructions} {row.calls} {number}"))
            )


class Row(NamedTuple):
    """A template of a case."""

    kind: str
    service: str
    instructions: tuple[str, ...]
    calls: tuple[tuple[str, ...], ...]


def _rows(suite: Suite) -> Iterator[Row]:
    """Yield the rows of a suite's file; the text above its first heading is for its readers."""
    _, *kinds = re.split(r"^# (.+)$", (FOLDER / f"{suite}.txt").read_text(), flags=re.MULTILINE)
    for kind, text in zip(kinds[::2], kinds[1::2], strict=True):
        for row in text.strip().split("\n\n"):
            yield _row(suite, kind, row)


def _row(suite: Suite, kind: str, row: str) -> Row:
    instructions: list[str] = []
    calls: list[list[str]] = []
    for line in row.splitlines():
        if line.startswith(" "):
            calls[-1].append(line.strip())
        else:
            instructions.append(line)
            calls.append([])
    service: str = suite
    if suite == "functions":
        service, _, instructions[0] = instructions[0].partition(": ")
    return Row(kind, service, tuple(instructions), tuple(map(tuple, calls)))


def _body(row: Row, rng: random.Random) -> ToolTask:
    scenario, slots = slots_of(row.service, rng)
    return ToolTask(
        classes=(CLASSES[row.service],),
        world=json.dumps({CLASSES[row.service]: scenario}),
        turns=tuple(
            ToolTurn(
                instruction=instruction.format(**slots),
                reference=tuple(call.format(**slots) for call in calls),
            )
            for instruction, calls in zip(row.instructions, row.calls, strict=True)
        ),
        checks_directory=row.service == "filesystem",
    )
