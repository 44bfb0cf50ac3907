"""`coevolve launch --keep` and `coevolve resume --keep`: a process that resumes the run."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

from coevolve.base.terminal import Terminal
from coevolve.journal.codec import topics_of
from coevolve.journal.reader import STORE_FOLDER, JournalReader
from coevolve.launcher.interrupts import LOST
from coevolve.parts import logs
from coevolve.runs.keeper import Keeper
from coevolve.screen.display import LineDisplay
from protocols.config import RunConfig
from protocols.control import RunResumed, RunStarted
from protocols.errors import JournalError
from protocols.learning import Evaluation, StepReport

STARTS = topics_of(RunStarted, RunResumed)
PROGRESS = topics_of(StepReport, Evaluation)


def keep(
    config: RunConfig, path: Path, words: Callable[[bool], Sequence[str]], *, resume: bool
) -> int:
    """Keep the run in the folder ``path`` going; return its exit code.

    ``words`` returns the command that stays with the run, given whether it resumes; the first one
    does so with ``resume``.
    """
    logs.to_output()
    resumes = chain((resume,), iter(lambda: (path / "run.json").exists(), None))
    return Keeper(
        lambda: _start(words(next(resumes))),
        lambda: newest(path, STARTS),
        lambda: newest(path, PROGRESS),
        _said(config),
        lost=LOST,
    ).keep()


def _start(words: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a command in a process group of its own: a terminal interrupts only this process."""
    return subprocess.Popen(  # noqa: S603 - this very program
        [sys.executable, "-m", "coevolve", *words], process_group=0
    )


def _said(config: RunConfig) -> Callable[[str], None]:
    console = Terminal()
    if not console.is_terminal:
        return LineDisplay(config).say
    return lambda text: console.print(f"{config.name}: {text}", soft_wrap=True)


def newest(path: Path, topics: Sequence[str]) -> int:
    """Return the sequence of the newest record of ``topics``; 0 before there is a journal."""
    with (
        contextlib.suppress(JournalError),
        JournalReader(path / STORE_FOLDER).snapshot() as state,
    ):
        return max(state.newest(topic) for topic in topics)
    return 0
