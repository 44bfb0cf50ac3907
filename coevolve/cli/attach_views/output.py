"""Output of attach: tables for people, one JSON document for programs."""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from rich.table import Table

from coevolve.base.terminal import Terminal

WIDTH = 140
"""Width in columns of a table that is written to a file or a pipe, without ``COLUMNS``."""

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400


def console() -> Terminal:
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Terminal(width=None if known else WIDTH, highlight=False)


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    wrapped: Sequence[str] = (),
) -> Table:
    """Return a table in which only the ``wrapped`` columns may wrap."""
    filled = Table(title=title, title_justify="left")
    for column in columns:
        filled.add_column(column, no_wrap=column not in wrapped, overflow="fold")
    for row in rows:
        filled.add_row(*map(str, row))
    return filled


def tell(tree: Any, text: str, *, as_json: bool) -> None:
    """Print what a command did: ``tree`` as JSON for programs, else ``text`` for people."""
    if as_json:
        print_json(tree)
    else:
        say(text)


def print_json(tree: Any) -> None:
    """Print one JSON document on one line; bytes become base64."""
    # A message's body is msgpack inside msgpack; JSON needs it decoded.
    plain = msgspec.msgpack.decode(msgspec.msgpack.encode(tree))
    sys.stdout.write(msgspec.json.encode(plain).decode() + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Print one line."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def age(seconds: float) -> str:
    """Return a duration in its largest whole unit, for example ``3 min``."""
    for unit_s, unit in ((DAY_S, "d"), (HOUR_S, "h"), (MINUTE_S, "min")):
        if seconds >= unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def share(value: float | None) -> str:
    """Return a share in [0, 1] as a percentage; empty for None."""
    return "" if value is None else f"{100 * value:.0f} %"
