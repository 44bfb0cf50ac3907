"""Runs the project's commands in their own process, or in this one if that proves the same."""

import contextlib
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import structlog

from coevolve.base.import_guard import CODE, SAFE_PATH
from coevolve.cli.main import main

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Answer:
    """The output of a command and its exit code."""

    returncode: int
    stdout: str
    stderr: str


def called(*words: str, **environment: str) -> Answer:
    """Run `python -m coevolve WORDS...`."""
    done = subprocess.run(
        [sys.executable, "-m", "coevolve", *words],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def answered(*words: str) -> Answer:
    """Run `coevolve WORDS...` in this process: it does not have to load anything first."""
    return ended(lambda: main(words))


def ended(carry_out: Callable[[], int]) -> Answer:
    """Return how a command ended that was carried out in this process."""
    out, err = io.StringIO(), io.StringIO()
    with as_it_was(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = carry_out()
    return Answer(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def as_it_was() -> Generator[None]:
    """Put back what a command changes in its process: signal handlers, import path and log."""
    path = list(sys.path)
    variables = {name: os.environ.get(name) for name in (CODE, SAFE_PATH)}
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    log = structlog.get_config()
    try:
        yield
    finally:
        structlog.configure(**log)
        for name, value in variables.items():
            os.environ.pop(name, None)
            os.environ |= {} if value is None else {name: value}
        # The working folder goes again; folders of environments' packages stay, as in any process.
        sys.path[:] = [each for each in sys.path if each in path or each != str(Path.cwd())]
        signal.set_wakeup_fd(-1)
        for number, handler in handlers.items():
            signal.signal(number, handler)
