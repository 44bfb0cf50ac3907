"""The processes of a launcher's local Ray session, and their end.

Ray names the folder of a session after the time and the process that started it. A process belongs
to the session if it holds a file in that folder open, so this also finds what a launcher left that
died while Ray started. The folder itself may be gone: the launcher removes it when it ends by
itself, otherwise its guard or the next start (`coevolve.launcher.session`).
"""

import contextlib
import fcntl
import os
import re
import stat
from pathlib import Path

import psutil

from coevolve.base.foreign import bytes_of, opened, resolved
from coevolve.history.directory import MAX_PROCESS_ID

ID_DIGITS = 10
LOOKS = 3
BETWEEN_S = 0.5
"""Most seconds between two looks, if killed processes are slow to end. A later look finds those
that they had just started."""


def holders(launcher: int) -> list[psutil.Process]:
    """Return the Ray processes, other than drivers, that hold a file of the session open."""
    session = re.compile(rf"session_.+_{launcher}")
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any("ray::" in word or "/ray/" in word for word in process.cmdline()) and any(
                session.fullmatch(part) for path in _open_paths(process) for part in path.parts
            ):
                found.append(process)
    return found


def _open_paths(process: psutil.Process) -> list[Path]:
    """Return what a process holds open; of a removed file, too, which `psutil` leaves out."""
    found: list[Path] = []
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.append(descriptor.readlink())
    return found


def end_last(lock: Path) -> None:
    """Kill what is left of the session of the process that last locked a run's file.

    Does nothing while a process holds the lock.
    """
    try:
        with open(lock, opener=opened) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            launcher = last_launcher(lock)
    except OSError:  # it runs, or no process has ever launched the run
        return
    if launcher and not psutil.pid_exists(launcher):
        kill_holders(launcher)


def last_launcher(lock: Path) -> int:
    """Return the id of the process that last locked a run's file; 0 if it is not known."""
    try:
        content = bytes_of(lock, ID_DIGITS, pipe_s=0.0)
    except (OSError, ValueError):
        return 0
    launcher = int(content) if content.isdigit() else 0
    return launcher if launcher <= MAX_PROCESS_ID else 0


def is_launcher_of_this_user(lock: Path) -> bool:
    """Return whether a run's file is held open by the process that it names, all of this user.

    In a folder from elsewhere it may name any process, and another user may lock it. The folder
    and `run.json`, which names the cluster, have to be this user's, too.
    """
    try:
        owned = [each.lstat() for each in (lock, lock.with_name("run.json"), lock.parent)]
        launcher = psutil.Process(last_launcher(lock))
        users = {launcher.uids().real, *(each.st_uid for each in owned)}
    except (OSError, psutil.Error):
        return False
    are_plain = all(stat.S_ISREG(each.st_mode) for each in owned[:2])
    return users == {os.getuid()} and are_plain and resolved(lock) in _open_paths(launcher)


def kill_holders(launcher: int) -> None:
    """Kill every process that is left of the sessions of a launcher that has ended."""
    for _ in range(LOOKS):
        found = holders(launcher)
        if not found:
            return
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(found, timeout=BETWEEN_S)
