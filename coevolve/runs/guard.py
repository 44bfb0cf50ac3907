"""Ends Ray's processes when the launcher dies: `python -m coevolve.runs.guard PID FOLDER`.

The launcher starts the guard before Ray, in a session of its own, with a pipe as standard input.
The pipe closes when the launcher ends, in whatever way. The guard then kills every process that is
left of its Ray session; otherwise Ray's agents would outlive a killed launcher by a minute. Then it
removes FOLDER, which holds the session, if the launcher did not say that it ended by itself. If the
guard was killed as well, the next start does both (`coevolve.runs.sessions`).
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

from coevolve.runs import sessions

PATIENCE_S = 10.0

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


def main() -> None:
    """Wait until the launcher ends, then remove the remains of its Ray session."""
    launcher, folder = int(sys.argv[1]), Path(sys.argv[2])
    said = sys.stdin.buffer.read()
    sessions.kill_holders(launcher)
    if said != ENDED:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
