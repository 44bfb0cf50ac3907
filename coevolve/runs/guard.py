"""Ends Ray's processes when the launcher dies: `python -m coevolve.runs.guard PID FOLDER`.

The launcher starts the guard before Ray, in a session of its own, with a pipe as standard input.
The pipe closes when the launcher ends, in whatever way. The guard then kills every Ray process
that still holds a file of the launcher's Ray session open; otherwise Ray's agents would outlive
a killed launcher by a minute. The guard recognizes the session's folder by its name, which ends in
the process id of the launcher, so it also covers a launcher that dies while Ray starts. Then the
guard removes FOLDER, which holds the session, if the launcher did not say that it ended by itself.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import psutil

PATIENCE_S = 10.0

LOOKS = 3
BETWEEN_S = 0.5
"""Seconds between two looks. A later look finds processes that the killed ones had just started."""


ENDED = b"ended"
"""What a launcher says that removes the folder itself."""


@contextlib.contextmanager
def guarded(folder: Path) -> Generator[None]:
    """Guard the Ray session that this process starts inside the block, in ``folder``."""
    guard = subprocess.Popen(  # noqa: S603 - this very module
        [sys.executable, "-m", "coevolve.runs.guard", str(os.getpid()), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert guard.stdin is not None
    try:
        yield
    finally:
        with contextlib.suppress(BrokenPipeError):  # the guard was killed
            guard.communicate(ENDED, PATIENCE_S)


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


def main() -> None:
    """Wait until the launcher ends, then remove the remains of its Ray session."""
    launcher, folder = int(sys.argv[1]), Path(sys.argv[2])
    said = sys.stdin.buffer.read()
    _kill_rest(launcher)
    if said != ENDED:
        shutil.rmtree(folder, ignore_errors=True)


def _kill_rest(launcher: int) -> None:
    """Kill the remaining processes of the session."""
    for _ in range(LOOKS):
        found = holders(launcher)
        if not found:
            return
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(BETWEEN_S)


if __name__ == "__main__":
    main()
