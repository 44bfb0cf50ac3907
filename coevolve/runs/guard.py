"""Ends Ray's processes when the launcher dies: `python -m coevolve.runs.guard PID`.

The launcher starts the guard before Ray, in a session of its own, with a pipe as standard input.
The pipe closes when the launcher ends, in whatever way. The guard then kills every process that is
left of its Ray session; otherwise Ray's agents would outlive a killed launcher by a minute. If the
launcher was killed, the guard also removes the session's folder. If the guard was killed as well,
the next start of the run does the same (`coevolve.runs.sessions`).
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Generator

from coevolve.runs import sessions

PATIENCE_S = 10.0

ENDED = b"ended"
"""What a launcher writes that ends by itself: it has removed the folder, or keeps its logs."""


@contextlib.contextmanager
def guarded() -> Generator[None]:
    """Guard the Ray session that this process starts inside the block."""
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
        with contextlib.suppress(BrokenPipeError):  # the guard itself was killed
            guard.stdin.write(ENDED)
            guard.stdin.close()
        guard.wait(PATIENCE_S)


def main() -> None:
    """Wait until the launcher ends, then end its Ray session."""
    launcher = int(sys.argv[1])
    if sys.stdin.buffer.read() == ENDED:
        sessions.kill_holders(launcher)
    else:
        sessions.end(launcher)


if __name__ == "__main__":
    main()
