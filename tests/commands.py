"""The project's commands, in a process of their own or, where that proves the same, in this one."""

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
    """What a command said, and the code it ended with."""

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
    """Let a command answer in this process: it does not have to load anything first."""
    out, err = io.StringIO(), io.StringIO()
    with _as_it_was(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _code(main, words)
    return Answer(code, out.getvalue(), err.getvalue())


def _code(main: Callable[[Sequence[str]], object], words: Sequence[str]) -> int:
    """Return the status that the interpreter would end with."""
    try:
        ended = main(words)
    except SystemExit as left:
        ended = left.code
    return ended if isinstance(ended, int) else int(ended is not None)


@contextlib.contextmanager
def _as_it_was() -> Generator[None]:
    """Put back what a command changes in its process: who hears of interrupts, and the log."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    log = structlog.get_config()
    try:
        yield
    finally:
        structlog.configure(**log)
        for number, handler in handlers.items():
            signal.signal(number, handler)
