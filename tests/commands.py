"""Runs the project's commands in their own process, or in this one if that proves the same."""

import contextlib
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Answer:
    """The output of a command and its exit code."""

    returncode: int
    stdout: str
    stderr: str


def called(command: str, *words: str, **environment: str) -> Answer:
    """Run `python -m coevolve.COMMAND`."""
    done = subprocess.run(
        [sys.executable, "-m", f"coevolve.{command}", *words],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def answered(main: Callable[[Sequence[str]], object], *words: str) -> Answer:
    """Run a command in this process, without the time to import everything again."""
    out, err = io.StringIO(), io.StringIO()
    with _as_it_was(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _code(main, words)
    return Answer(code, out.getvalue(), err.getvalue())


def _code(main: Callable[[Sequence[str]], object], words: Sequence[str]) -> int:
    """Return the exit status that the interpreter would have."""
    try:
        ended = main(words)
    except SystemExit as left:
        ended = left.code
    return ended if isinstance(ended, int) else int(ended is not None)


@contextlib.contextmanager
def _as_it_was() -> Generator[None]:
    """Restore what a command changes in its process: the interrupt handlers and the log."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    log = structlog.get_config()
    try:
        yield
    finally:
        structlog.configure(**log)
        for number, handler in handlers.items():
            signal.signal(number, handler)
