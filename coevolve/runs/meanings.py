"""What each metric means: the tables of the page `metrics.md`, which is their only source.

`coevolve explain`, the key ``?`` of the live screen and TensorBoard show them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"

_NAME = re.compile(r"`([^`]+)`")
_OPEN = re.compile(r"[A-Z]{2,}")
"""A word in a name that stands for any text, such as ``LABEL``."""


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """A row of the page: metrics of one meaning."""

    names: tuple[str, ...]
    """Names in `metrics.jsonl`; words in capitals stand for any text."""

    section: str
    unit: str
    """Unit and range."""

    meaning: str
    moves: str
    """What a change means and what to do; may be empty."""


@lru_cache(maxsize=1)
def meanings() -> Sequence[Meaning]:
    """Return the meanings of all metrics, in the order of the page."""
    found: list[Meaning] = []
    section = ""
    text = PAGE.read_text("utf-8").partition("\n## attach status\n")[0]
    for line in text.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line.startswith("| `"):
            name, unit, meaning, moves = (x.strip() for x in line.strip("|").split("|"))
            names = tuple(_NAME.findall(name))
            cells = map(_plain, (unit, meaning, moves))
            unit, meaning, moves = cells
            found.append(
                Meaning(names=names, section=section, unit=unit, meaning=meaning, moves=moves)
            )
    return found


def meaning_of(metric: str) -> Meaning | None:
    """Return the meaning of a metric by its name in `metrics.jsonl`; None if it is unknown.

    A name of its own comes before one that stands for many.
    """
    for each in meanings():
        if metric in each.names:
            return each
    for each in meanings():
        if any(_matches(name, metric) for name in each.names):
            return each
    return None


def _matches(name: str, metric: str) -> bool:
    """Return whether a name with a word that stands for any text covers a metric."""
    pieces = _OPEN.split(name)
    return len(pieces) > 1 and re.fullmatch(".+".join(map(re.escape, pieces)), metric) is not None


def _plain(cell: str) -> str:
    """Return a cell without Markdown."""
    return re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", cell).replace("`", "")
