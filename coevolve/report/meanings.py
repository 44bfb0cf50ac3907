"""What each metric means: the tables of the page `coevolve/docs/metrics.md`, read as data."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
END = "\n## attach status\n"
OTHER = "Other"
"""Group of metrics that the page does not explain."""

_OPEN_SETS = {
    "val/success/LABEL": r"val/success/.+",
    "val/MEASURE/LABEL": r"val/.+",
    "validator/reject/GATE": r"validator/reject/.+",
}
"""Name in the page of an open set of metrics -> the pattern of their names."""


@dataclass(frozen=True)
class Meaning:
    """One row of the page; its texts are Markdown of one line."""

    group: str
    """Heading of its table."""

    unit: str
    meaning: str
    moves: str
    """What a change means, and what to do; empty if the page does not say."""


UNKNOWN = Meaning(group=OTHER, unit="", meaning="", moves="")


def meaning_of(name: str) -> Meaning:
    """Return what the metric ``name`` means; `UNKNOWN` if the page does not explain it."""
    return meanings().get(told_as(name), UNKNOWN)


def told_as(name: str) -> str:
    """Return the name under which the page explains a metric; ``name`` itself if it does not."""
    if name in meanings():
        return name
    sets = (told for told, pattern in _OPEN_SETS.items() if re.fullmatch(pattern, name))
    return next(sets, name)


@cache
def meanings() -> Mapping[str, Meaning]:
    """Return the meanings by the names in the page, in its order."""
    found: dict[str, Meaning] = {}
    text = PAGE.read_text("utf-8").partition(END)[0]
    for part in text.split("\n## ")[1:]:
        group = part.partition("\n")[0]
        for row in re.findall(r"^\| (`.*) \|$", part, re.MULTILINE):
            names, unit, meaning, moves = (cell.strip() for cell in f"{row} ".split(" | "))
            for name in re.findall(r"`([^`]+)`", names):
                found[name] = Meaning(group=group, unit=unit, meaning=meaning, moves=moves)
    return found
