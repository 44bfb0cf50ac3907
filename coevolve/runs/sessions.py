"""The local Ray session of a launcher: its processes, its folder, and their end.

Ray names the folder of a session after the time and the process that started it. A process belongs
to the session if it holds a file in that folder open, so this also finds what a launcher left that
died while Ray started.
"""

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
from pathlib import Path

import psutil

PREFIX = "cvray-"
"""First letters of the folder of a session; they are few because paths of sockets are short."""

INNER = "r"
"""The folder in it that Ray opens to all users, who cannot reach it."""

LOOKS = 3
BETWEEN_S = 0.5
"""Seconds between two looks. A later look finds processes that the killed ones had just started."""


def holders(launcher: int) -> list[psutil.Process]:
    """Return the Ray processes, other than drivers, that hold a file of the session open."""
    session = re.compile(rf"session_.+_{launcher}")
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any("ray::" in word or "/ray/" in word for word in process.cmdline()) and any(
                session.fullmatch(part)
                for file in process.open_files()
                for part in Path(file.path).parts
            ):
                found.append(process)
    return found


def folders(launcher: int) -> list[Path]:
    """Return the folders with the sessions that the process ``launcher`` started."""
    root = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir())
    sessions = root.glob(f"{PREFIX}*/{INNER}/session_*_{launcher}")
    return sorted({session.parents[1] for session in sessions})


def end(launcher: int) -> None:
    """Kill what is left of the sessions of a launcher that has ended, and remove their folders."""
    kill_holders(launcher)
    for folder in folders(launcher):
        shutil.rmtree(folder, ignore_errors=True)


def end_last(lock: Path) -> None:
    """End the session of the process that last locked a run's file, if nobody has ended it.

    Does nothing while a process holds the lock.
    """
    try:
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            launcher = file.read()
    except OSError:  # it runs, or no process has ever launched the run
        return
    if launcher.isdecimal() and not psutil.pid_exists(int(launcher)):
        end(int(launcher))


def kill_holders(launcher: int) -> None:
    """Kill every process that is left of the sessions of a launcher that has ended."""
    for _ in range(LOOKS):
        found = holders(launcher)
        if not found:
            return
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(BETWEEN_S)
