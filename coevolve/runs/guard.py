"""Leaves no process behind when the launcher dies: `python -m coevolve.runs.guard PID`.

Started by the launcher before Ray, in a session of its own, with a pipe as standard input. The pipe
ends with the launcher, however that ends; then every process of Ray that still holds a file of the
launcher's Ray session open is killed. Ray's own agents would otherwise outlive a launcher that was
killed by a minute. A session's folder is known by its name, which ends in the number of the process
that started it, so that a launcher that dies while Ray is being started is covered, too.
"""

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import psutil

PATIENCE_S = 10.0

LOOKS = 3
BETWEEN_S = 0.5
"""A further look finds what the first victims started in their last moments."""


@contextlib.contextmanager
def guarded() -> Generator[None]:
    """Put the Ray session that this process starts under guard."""
    guard = subprocess.Popen(  # noqa: S603 - this very module
        [sys.executable, "-m", "coevolve.runs.guard", str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert guard.stdin is not None
    try:
        yield
    finally:
        guard.stdin.close()
        guard.wait(PATIENCE_S)


def holders(launcher: int) -> list[psutil.Process]:
    """Return the processes of Ray that hold a file of the launcher's session open; no drivers."""
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
    """Wait for the launcher's end, then kill what is left of its Ray session."""
    launcher = int(sys.argv[1])
    sys.stdin.read()
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
