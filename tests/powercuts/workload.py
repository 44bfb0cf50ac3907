"""A process that uses a journal, or the other files of a run, under `trace.c`.

It says each step as a mark in the trace, and lives until its standard input ends or it is killed.
"""

import ctypes
import os
import select
import sys
from itertools import count
from pathlib import Path
from typing import Literal

import msgspec

from coevolve.journal.journal import Journal
from protocols.journal import Durability
from tests.journal_writer import JournalWriter, say
from tests.powercuts import run_files

BOOT = "before the cut"
PAUSE_S = 0.002
SYNC_S = 0.03
SLACK_BYTES = 300_000
"""Little, so that the writer flushes now and then before the time."""

RETAIN_BYTES = 60_000
"""Little, so that pages of the journal are used again soon."""


def mark(line: str) -> None:
    """Add a mark to the trace; a process that is not traced has no such function."""
    ctypes.CDLL(None).trace_mark(line.encode())


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """What a process shall do."""

    folder: str
    level: Literal["process", "power", "files"]
    unanswered: list[tuple[str, int, str]] = []


def write_journal(folder: Path, durability: Durability, life: Life) -> None:
    journal = Journal.open(
        folder,
        durability=durability,
        retain_bytes=RETAIN_BYTES,
        sync_s=SYNC_S,
        slack_bytes=SLACK_BYTES,
        boot=BOOT,
    )
    JournalWriter(journal, mark, PAUSE_S).start(life.unanswered)
    say("open")
    sys.stdin.read()
    journal.close()


def write_files(folder: Path) -> None:
    written = run_files.write(folder, mark, count(1))
    next(written)
    say("open")
    while not select.select([sys.stdin], [], [], 0)[0]:
        next(written)
    written.close()


def main(life: Life) -> None:
    folder = Path(life.folder)
    if life.level == "files":
        write_files(folder)
    else:
        write_journal(folder, life.level, life)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Life))
    os._exit(0)  # threads of the writer may still sleep
