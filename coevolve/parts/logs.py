"""Destinations of log lines: files of JSON lines for parts, standard output for programs.

A part's file that is full becomes `NAME.jsonl.1`, in place of an older one, so a part's log takes
at most twice `MOST_BYTES`, and a line, for however long the run lasts.
"""

import logging
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor

from coevolve.base.durable_files import no_link
from coevolve.base.visible import as_visible

FOLDER = "logs"

MOST_BYTES = 32 << 20
"""Size at which a part's log begins anew."""


def log_file(run_dir: Path, part: str) -> Path:
    return run_dir / FOLDER / f"{part}.jsonl"


def to_file(run_dir: Path, part: str, send: Callable[[str], None] | None = None) -> None:
    """Append this process's log lines to ``logs/<part>.jsonl`` of the run.

    On a node that has only copies of the run's folder, ``send`` copies each line to the original.
    """
    path = log_file(run_dir, part)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = BoundedFile(path)
    _configure(_Sent(file, send) if send else file)


def to_output() -> None:
    """Send this process's log lines to standard output."""
    _configure(sys.stdout)


def to_errors() -> None:
    """Send this process's log lines to standard error, because standard output carries results.

    Equal lines are written once: an environment that is built repeatedly repeats its warnings.
    """
    _configure(sys.stderr, _Once())


@contextmanager
def errors_alone() -> Generator[None]:
    """Log errors alone in the block: what a run logs of its tasks, a command says in words."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    try:
        yield
    finally:
        structlog.reset_defaults()
        to_errors()


class BoundedFile:
    """The end of a part's log: appended lines, and about as many before them in a second file."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        """Open or create the file."""
        self._path = path
        self._most_bytes = most_bytes
        self._file = self._open()

    def write(self, line: str) -> int:
        """Append a line, to a new file if this one is full."""
        if os.fstat(self._file.fileno()).st_size >= self._most_bytes:
            self._file.close()
            with suppress(FileNotFoundError):  # another process of the part was first
                self._path.replace(f"{self._path}.1")
            self._file = self._open()
        return self._file.write(line)

    def flush(self) -> None:
        """Do nothing: each line is written at once."""

    def close(self) -> None:
        self._file.close()

    def _open(self) -> TextIO:
        return open(self._path, "a", encoding="utf-8", buffering=1, opener=no_link)


class _Sent:
    """A file whose lines are also sent elsewhere."""

    def __init__(self, file: BoundedFile, send: Callable[[str], None]) -> None:
        self._file = file
        self._send = send
        self.flush = file.flush

    def write(self, line: str) -> int:
        self._send(line)
        return self._file.write(line)


class _Once:
    """A processor that drops a line that it has seen before."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __call__(self, logger: object, method: str, line: EventDict) -> EventDict:
        """Return the line. Raises DropEvent if it was returned before."""
        text = f"{method} {sorted(line.items())}"
        if text in self._seen:
            raise structlog.DropEvent
        self._seen.add(text)
        return line


def _configure(stream: Any, *first: Processor) -> None:
    structlog.configure(
        processors=[
            *first,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(as_visible(stream)),
        cache_logger_on_first_use=False,
    )
