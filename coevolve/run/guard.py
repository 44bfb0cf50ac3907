"""Leaves no process behind when the launcher dies: `python -m coevolve.run.guard`.

Started by the launcher, in a session of its own, with a pipe on standard input that names the
folder of the local Ray session. The pipe ends with the launcher, however that ends; then every
process of Ray that still holds a file below that folder open is killed. Ray's own agents would
otherwise outlive a launcher that was killed by a minute.
"""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import psutil

PATIENCE_S = 10.0

LOOKS = 2
"""A second look finds what the first victims started in their last moments."""


@contextlib.contextmanager
def guarded() -> Generator[Callable[[Path], None]]:
    """Start a guard; what is called with a folder puts those who hold its files under guard."""
    guard = subprocess.Popen(
        [sys.executable, "-m", "coevolve.run.guard"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
        bufsize=1,
    )
    assert guard.stdin is not None
    pipe = guard.stdin
    try:
        yield lambda folder: print(folder.resolve(), file=pipe)
    finally:
        pipe.close()
        guard.wait(PATIENCE_S)


def holders(folder: Path) -> list[psutil.Process]:
    """Return the processes of Ray, no drivers, that hold a file below ``folder`` open."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any("ray::" in word or "/ray/" in word for word in process.cmdline()) and any(
                Path(file.path).is_relative_to(folder) for file in process.open_files()
            ):
                found.append(process)
    return found


def main() -> None:
    """Wait for the launcher's end, then kill what is left of its Ray session."""
    folders = [Path(line.strip()) for line in sys.stdin]
    for folder in folders * LOOKS:
        for process in holders(folder):
            with contextlib.suppress(psutil.Error):
                process.kill()


if __name__ == "__main__":
    main()
