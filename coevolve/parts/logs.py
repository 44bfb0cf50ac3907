"""Destinations of log lines: files of JSON lines for parts, standard output for programs."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor

from coevolve.visible import as_visible

FOLDER = "logs"


def log_file(run_dir: Path, part: str) -> Path:
    """Return the file with a part's log lines."""
    return run_dir / FOLDER / f"{part}.jsonl"


def to_file(run_dir: Path, part: str, send: Callable[[str], None] | None = None) -> None:
    """Append this process's log lines to ``logs/<part>.jsonl`` of the run.

    On a node that has only copies of the run's folder, ``send`` copies each line to the original.
    """
    path = log_file(run_dir, part)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a", encoding="utf-8", buffering=1)
    _configure(_Sent(file, send) if send else file)


def to_output() -> None:
    """Send this process's log lines to standard output."""
    _configure(sys.stdout)


def to_errors() -> None:
    """Send this process's log lines to standard error, because standard output carries results.

    Equal lines are written once: an environment that is built repeatedly repeats its warnings.
    """
    _configure(sys.stderr, _Once())


class _Sent:
    """A file whose lines are also sent elsewhere."""

    def __init__(self, file: TextIO, send: Callable[[str], None]) -> None:
        self._file = file
        self._send = send
        self.flush = file.flush

    def write(self, line: str) -> int:
        """Write a line to the file and send it."""
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
