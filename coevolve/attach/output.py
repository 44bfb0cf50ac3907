"""Output of attach: tables for people, one JSON document for programs."""

import os
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.table import Table

from coevolve.terminal import Terminal

WIDTH = 140
"""Width in columns of a table that is written to a file or a pipe, without ``COLUMNS``."""

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400


def console() -> Terminal:
    """Return the console for tables."""
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Terminal(width=None if known else WIDTH, highlight=False)


def table(title: str, columns: Sequence[str], *, wrapped: Sequence[str] = ()) -> Table:
    """Return an empty table in which only the ``wrapped`` columns may wrap."""
    empty = Table(title=title, title_justify="left")
    for column in columns:
        empty.add_column(column, no_wrap=column not in wrapped, overflow="fold")
    return empty


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
