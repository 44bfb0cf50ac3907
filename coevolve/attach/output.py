"""How answers look: tables for people, one JSON document for programs."""

import sys
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

WIDTH = 140
"""Columns of a table that goes to a file or a pipe."""

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400


def console() -> Console:
    """Return where tables go. Nothing that is printed is taken for markup."""
    return Console(width=None if sys.stdout.isatty() else WIDTH, markup=False, highlight=False)


def table(title: str, columns: Sequence[str], *, wrapped: Sequence[str] = ()) -> Table:
    """Return an empty table; only the ``wrapped`` columns may break their lines."""
    empty = Table(title=title, title_justify="left")
    for column in columns:
        empty.add_column(column, no_wrap=column not in wrapped, overflow="fold")
    return empty


def print_json(tree: Any) -> None:
    """Print one JSON document on one line; bytes become base64."""
    # Bodies of messages are msgpack, which JSON has to have decoded.
    plain = msgspec.msgpack.decode(msgspec.msgpack.encode(tree))
    sys.stdout.write(msgspec.json.encode(plain).decode() + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Print one line."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def age(seconds: float) -> str:
    """Return a span of time in its largest whole unit, for example ``3 min``."""
    for unit_s, unit in ((DAY_S, "d"), (HOUR_S, "h"), (MINUTE_S, "min")):
        if seconds >= unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def share(value: float | None) -> str:
    """Return a share as percent; empty where there is none."""
    return "" if value is None else f"{100 * value:.0f} %"
