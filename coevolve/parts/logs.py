"""Destinations of log lines: files of JSON lines for parts, standard output for programs."""

import sys
from pathlib import Path
from typing import TextIO

import structlog

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
    """Send this process's log lines to standard error, if standard output carries results."""
    _configure(sys.stderr)


def _configure(stream: TextIO) -> None:
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
