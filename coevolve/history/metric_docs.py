"""What each metric and each term means: the tables of two pages, which are their only source.

These are `metrics.md` and `glossary.md`. `coevolve explain`, the report, and trackers that can show
a description show them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"

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


@dataclass(frozen=True, kw_only=True)
class Term:
    """A row of the glossary: one term, or some that are explained together."""

    names: tuple[str, ...]
    meaning: str
    environment: str
    """The only environment that has it; empty for a term of all."""


@lru_cache(maxsize=1)
def terms() -> Sequence[Term]:
    """Return the terms of the glossary by their first names, in the order of the alphabet."""
    rows = (_cells(line) for line in (DOCS / "glossary.md").read_text("utf-8").splitlines())
    found = [
        Term(
            names=tuple(map(str.strip, row[0].split(","))),
            meaning=_plain(row[1]),
            environment=_plain(row[2]) if len(row) > 2 else "",
        )
        for row in rows
        if len(row) > 1 and row[0] != "word" and row[0].strip("-")
    ]
    return sorted(found, key=lambda term: term.names[0].lower())


def term_of(word: str) -> Term | None:
    """Return the term with a name, in any case; None if the glossary has none."""
    wanted = word.lower()
    return next((t for t in terms() if wanted in map(str.lower, t.names)), None)


@lru_cache(maxsize=1)
def meanings() -> Sequence[Meaning]:
    """Return the meanings of all metrics, in the order of the page."""
    found: list[Meaning] = []
    section = ""
    text = (DOCS / "metrics.md").read_text("utf-8").partition("\n## attach status\n")[0]
    for line in text.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line.startswith("| `"):
            name, unit, meaning, moves = _cells(line)
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


def described() -> str:
    """Return all meanings as Markdown, for trackers that describe a run and not its metrics."""
    lines = ["What the metrics mean (`coevolve explain NAME` also says what to do):", ""]
    for each in meanings():
        names = ", ".join(f"`{name}`" for name in each.names)
        unit = f" ({each.unit})" if each.unit else ""
        lines.append(f"- {names}: {each.meaning}{unit}")
    return "\n".join(lines) + "\n"


def _matches(name: str, metric: str) -> bool:
    """Return whether a name with a word that stands for any text covers a metric."""
    pieces = _OPEN.split(name)
    return len(pieces) > 1 and re.fullmatch(".+".join(map(re.escape, pieces)), metric) is not None


def _cells(line: str) -> list[str]:
    """Return the cells of a line of a table; one cell for other lines."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def _plain(cell: str) -> str:
    """Return a cell without Markdown."""
    return re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", cell).replace("`", "")
