"""Destinations of log lines: files of JSON lines for parts, standard output for programs."""

import sys
from pathlib import Path
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor

FOLDER = "logs"


def to_file(run_dir: Path, part: str) -> None:
    """Append this process's log lines to ``logs/<part>.jsonl`` of the run."""
    folder = run_dir / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    _configure((folder / f"{part}.jsonl").open("a", encoding="utf-8", buffering=1))


def to_output() -> None:
    """Send this process's log lines to standard output."""
    _configure(sys.stdout)


def to_errors() -> None:
    """Send this process's log lines to standard error, because standard output carries results.

    Equal lines are written once: an environment that is built repeatedly repeats its warnings.
    """
    _configure(sys.stderr, _Once())


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


def _configure(stream: TextIO, *first: Processor) -> None:
    structlog.configure(
        processors=[
            *first,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
