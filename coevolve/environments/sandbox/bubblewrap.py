"""The command line of bubblewrap for one run: its namespaces and its view of the files.

The program is a child of the namespace's first process, a shell that only waits for it. When the
program ends, the shell and thus the namespace end, and with it every process inside. The CPU
seconds of all of them are part of the usage that bubblewrap's parent gets when it waits for
bubblewrap.
"""

import contextlib
import json
import os
import signal
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

from coevolve.environments.sandbox.supervision import found_program

TEMPORARY = "/tmp"  # noqa: S108, the sandbox has its own
TEMPORARY_BYTES = 64 << 20
REPORT_BYTES = 65536

SYSTEM_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SYSTEM_FOLDERS = ("/usr", "/nix/store", "/etc/alternatives", "/etc/ld.so.cache")
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")

_KEPT = "exec 3>&2 4<&0 2>/dev/null </dev/null"
_FIRST = ("/bin/sh", "-c", f'{_KEPT}; "$@" 2>&3 <&4 3>&- 4<&- & wait $!; exit $?', "sh")
"""Keeps the shell's message about a killed child out of the output. The shell would give its
background program no input; so the input is kept as another descriptor."""

Namespaces = tuple[str, ...]

BY_ROOT: Namespaces = (
    *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
    *("--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"),
    *("--cap-add", "CAP_DAC_READ_SEARCH"),
)
"""Root needs no user namespace. The capabilities are needed to change to another user, and before
that to enter that user's folder; the change of user drops them."""

BY_ANYONE: Namespaces = ("--unshare-user", "--unshare-all", "--cap-drop", "ALL")


class Report:
    """Bubblewrap's status reports on one run: the pid of the first process, and its exit status."""

    def __init__(self, read_fd: int) -> None:
        self._read_fd = read_fd
        self._text = ""

    def started(self) -> bool:
        """Return whether bubblewrap started a program, which has ended since."""
        return '"exit-code"' in self._read()

    def stop(self, bwrap_pid: int) -> None:
        """Kill the first process, which ends the namespace and then bubblewrap.

        If there is no first process yet, kill bubblewrap itself.
        """
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            first = self._first_process()
            if first is None:
                os.killpg(bwrap_pid, signal.SIGKILL)
                return
            handle = os.pidfd_open(first)
            try:
                if _parent(first) == bwrap_pid:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)

    def _first_process(self) -> int | None:
        line, whole, _ = self._read().partition("\n")
        return int(json.loads(line)["child-pid"]) if whole else None

    def _read(self) -> str:
        with contextlib.suppress(BlockingIOError):
            self._text += os.read(self._read_fd, REPORT_BYTES).decode()
        return self._text


def code_of_program(code: int) -> int:
    """Return the exit status of the program from bubblewrap's own; negative for a signal."""
    return 128 - code if code > 128 else code


def _parent(pid: int) -> int:
    """Return the parent's pid; parse after the last bracket, since a name may contain anything."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@contextlib.contextmanager
def report_pipe() -> Generator[tuple[Report, int]]:
    """Yield a report, and the descriptor to which bubblewrap writes it."""
    read_fd, write_fd = os.pipe()
    try:
        os.set_blocking(read_fd, False)
        yield Report(read_fd), write_fd
    finally:
        os.close(read_fd)
        os.close(write_fd)


@contextlib.contextmanager
def filter_file(program: bytes) -> Generator[int]:
    """Yield a descriptor from which bubblewrap reads the filter."""
    fd = os.memfd_create("filter")
    try:
        os.write(fd, program)
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)


def command(
    namespaces: Namespaces,
    *,
    read_only: Sequence[Path],
    work: Path,
    cwd: Path,
    filter_fd: int,
    report_fd: int,
) -> tuple[str, ...]:
    """Return the command to put before a program, which is given by its absolute path."""
    return (
        *(found_program("bwrap", "bubblewrap"), *namespaces, "--hostname", "sandbox"),
        *("--die-with-parent", "--new-session", "--as-pid-1", *_files(read_only, work)),
        *("--chdir", str(cwd), "--seccomp", str(filter_fd), "--json-status-fd", str(report_fd)),
        *("--", *_FIRST),
    )


def _files(read_only: Sequence[Path], work: Path) -> Iterator[str]:
    for path in map(Path, SYSTEM_LINKS):
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    yield from ("--perms", "1777", "--size", str(TEMPORARY_BYTES), "--tmpfs", TEMPORARY)
    for path in DEVICES:
        yield from (*_ancestors(path), "--dev-bind", path, path)
    for path in (*filter(os.path.exists, SYSTEM_FOLDERS), *map(str, read_only)):
        yield from (*_ancestors(path), "--ro-bind", path, path)
    yield from (*_ancestors(str(work)), "--bind", str(work), str(work), "--remount-ro", "/")


def _ancestors(path: str) -> Iterator[str]:
    """Create the parent folders of ``path``; bubblewrap itself would let only root enter them."""
    for folder in reversed(Path(path).parents[:-1]):
        yield from ("--perms", "0755", "--dir", str(folder))
