"""Runs a foreign program, and ends all that it started when it ends or the parent does.

The program has a limit of memory, and a process group of its own. Whoever starts this ends it by
SIGTERM. If this is killed, the program dies with it, but what has a session of its own may live on.

usage: python -I -S begin.py MEGABYTES PROGRAM [ARGUMENT]...
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_AWAITED = (signal.SIGCHLD, signal.SIGTERM)


def main() -> None:
    """Run the program, and end as it does, or by SIGTERM."""
    megabytes, *command = sys.argv[1:]
    _limit(int(megabytes) << 20)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # also of processes in sessions of their own
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    pid = os.fork()
    if not pid:
        _become(command)
    status, ended = int(signal.SIGTERM), 0
    while ended != pid and signal.sigwait(_AWAITED) == signal.SIGCHLD:
        while ended != pid and (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended, status = found
    _kill_children()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no other action
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def _limit(size: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    size = size if most == resource.RLIM_INFINITY else min(size, most)
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _become(command: list[str]) -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setpgid(0, 0)  # a program may signal its group
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
    try:
        os.execvp(command[0], command)  # noqa: S606 -- the user's own command
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


def _kill_children() -> None:
    """Kill children until there are none; those of a killed one become children of this process."""
    pid = os.getpid()
    with contextlib.suppress(ChildProcessError):
        while True:
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
            os.waitpid(-1, 0)


if __name__ == "__main__":
    main()
