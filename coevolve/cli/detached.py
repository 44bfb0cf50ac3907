"""A run without a terminal: a process in a session of its own, which outlives the command."""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from coevolve.base.durable_files import no_link
from coevolve.cli.keeping import STARTS, newest
from coevolve.history.directory import LAUNCH_LOG, RunDirectory
from coevolve.launcher import launch as launcher
from coevolve.screen.start import CHECKS, StartScreen
from protocols.config import RunConfig
from protocols.errors import RunError

LOOK_S = 0.2
SHOWN_LINES = 20
"""Last lines of the output that an error shows, if they have no message."""


def detach(
    config: RunConfig, runs: Path, words: Sequence[str], screen: StartScreen, *, resume: bool
) -> None:
    """Start or resume a run in a process of its own; return after its first record.

    ``words`` are the command that stays with the run, given that its folder exists. An interrupt
    until then stops the process.

    Raises CoevolveError if the run cannot start or continue.
    """
    screen.begin(CHECKS)
    launcher.check(config, runs, resume=resume)
    screen.begin("start the run without a terminal")
    directory = launcher.open_directory(config, runs, resume=resume)
    before = newest(directory.path, STARTS)
    with open(directory.path / LAUNCH_LOG, "ab", opener=no_link) as log:
        earlier_bytes = log.tell()
        process = _start(words, log)
    try:
        while newest(directory.path, STARTS) == before:
            if process.poll() is not None:
                raise RunError(_failure(directory, earlier_bytes, process.returncode))
            time.sleep(LOOK_S)
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise
    screen.close()
    attach = f"coevolve attach {directory.called}"
    sys.stdout.write(
        f"{config.name}: began as process {process.pid}, which writes to "
        f"{directory.path / LAUNCH_LOG}\n"
        f"look into it: {attach} status\n"
        f"stop it:      {attach} stop\n"
    )


def _start(words: Sequence[str], log: BinaryIO) -> subprocess.Popen[bytes]:
    """Start a command that ignores SIGHUP, with its output in ``log``."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        return subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, "-m", "coevolve", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGHUP, before)


def _failure(directory: RunDirectory, earlier_bytes: int, code: int) -> str:
    """Return the error of a process that ended before its first record."""
    log = directory.path / LAUNCH_LOG
    said = log.read_bytes()[earlier_bytes:].decode(errors="replace")
    _, found, message = said.rpartition("coevolve: ")
    if found:
        return message.strip()
    last = "\n".join(said.splitlines()[-SHOWN_LINES:])
    return f"the run ended with code {code} before it began; {log} ends with:\n{last}"
