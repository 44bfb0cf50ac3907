"""Arguments and output of benchmarks: tables for people, a JSON document for programs."""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
from rich.console import Console, RenderableType
from rich.table import Table

Figures = TypeVar("Figures")


def parser_of(name: str, summary: str | None) -> argparse.ArgumentParser:
    """Return the parser of ``python -m tests.bench NAME``, with ``--json``."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench {name}", description=summary)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def show(
    figures: Figures,
    drawn: Callable[[Figures], RenderableType],
    *,
    as_json: bool,
    width: int | None = None,
) -> None:
    """Print figures as JSON, or as the table ``drawn`` with the given width in columns."""
    if as_json:
        sys.stdout.write(msgspec.json.encode(figures).decode() + "\n")
    else:
        Console(width=width).print(drawn(figures))


def table(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1
) -> Table:
    """Return a table whose first ``words`` columns hold words and the others numbers."""
    drawn = Table(title=title)
    for place, heading in enumerate(headings):
        drawn.add_column(heading, justify="left" if place < words else "right")
    for row in rows:
        drawn.add_row(*row)
    return drawn


def number(value: float | None) -> str:
    """Return a number with thousands separators, or two decimals if it is small; empty for None."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
