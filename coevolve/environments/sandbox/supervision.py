"""Runs one child process with limits on wall clock and output, and leaves no process behind.

The child leads its own session. The run is over when the child ends, even if another process still
holds its output open; the rest of its process group is then killed. Needs Linux 5.3 (pidfd).
"""

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import psutil

from protocols.errors import DependencyError

LAST_WORDS_S = 5.0
"""Maximum seconds for a killed child to end, and for its output to be closed."""

CHUNK_BYTES = 65536


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _same(code: int) -> int:
    return code


@dataclass(frozen=True, kw_only=True)
class Confined:
    """How a program is started in a sandbox, and how it is ended."""

    argv: Sequence[str]
    cwd: Path
    pass_fds: Sequence[int] = ()
    kill: Callable[[int], None] = _kill_group
    """Ends the program; it gets the pid of the child."""

    started: Callable[[], bool] = lambda: True
    """Whether a child that ended by itself had started the program at all."""

    code: Callable[[int], int] = _same
    """The program's exit status from the child's, both negative for a signal."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The end of a child."""

    code: int
    """Exit status; negative for a signal."""

    output: bytes
    stopped: Literal["", "wall", "output"]
    """The limit for which it was killed; empty if it ended by itself."""

    cpu_s: float
    """CPU seconds of the child and of all descendants that were waited for or still ran at its
    kill."""

    wall_s: float


@cache
def found_program(program: str, package: str) -> str:
    """Return the path of a program. Raises DependencyError."""
    path = shutil.which(program)
    if not path:
        raise DependencyError(f"the sandbox needs the program {program}; install {package}")
    return path


def supervise(
    confined: Confined, *, environment: Mapping[str, str], wall_s: float, output_bytes: int
) -> Ended:
    """Run a program until it ends, or kill it if it reaches a limit. Blocks.

    Raises OSError if it cannot be started.
    """
    started = time.monotonic()
    child = subprocess.Popen(  # noqa: S603, the sandbox's purpose
        confined.argv,
        cwd=confined.cwd,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=tuple(confined.pass_fds),
    )
    output = bytearray()
    stopped: Literal["", "wall", "output"] = "wall"
    spent_s = 0.0
    try:
        stopped = _watch(child, output, started + wall_s, output_bytes)
    finally:
        if stopped:
            spent_s = cpu_s_so_far(child.pid)
            confined.kill(child.pid)
        code, cpu_s = reap(child)
    _drain(child, output, output_bytes)
    return Ended(
        code=confined.code(code),
        output=bytes(output),
        stopped=stopped,
        cpu_s=max(cpu_s, spent_s),
        wall_s=time.monotonic() - started,
    )


def cpu_s_so_far(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants, before they are killed."""
    total = 0.0
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        for each in (root, *root.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                times = each.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
    return total


def _watch(
    child: subprocess.Popen[bytes], output: bytearray, deadline: float, output_bytes: int
) -> Literal["", "wall", "output"]:
    assert child.stdout is not None
    ended = os.pidfd_open(child.pid)
    with contextlib.closing(selectors.DefaultSelector()) as waiting:
        waiting.register(ended, selectors.EVENT_READ)
        waiting.register(child.stdout, selectors.EVENT_READ)
        try:
            while (left := deadline - time.monotonic()) > 0:
                ready = {key.fd for key, _ in waiting.select(left)}
                if child.stdout.fileno() in ready:
                    chunk = os.read(child.stdout.fileno(), CHUNK_BYTES)
                    output += chunk
                    if len(output) > output_bytes:
                        return "output"
                    if not chunk:
                        waiting.unregister(child.stdout)
                elif ended in ready:
                    return ""
            return "wall"
        finally:
            os.close(ended)


def reap(child: subprocess.Popen[bytes]) -> tuple[int, float]:
    """Wait for a child that ended or was killed; kill its group before its id is reused.

    Returns its exit status, negative for a signal, and its CPU seconds.
    """
    ended = os.pidfd_open(child.pid)
    try:
        with selectors.DefaultSelector() as waiting:
            waiting.register(ended, selectors.EVENT_READ)
            waiting.select(LAST_WORDS_S)
    finally:
        os.close(ended)
    _kill_group(child.pid)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, usage.ru_utime + usage.ru_stime


def _drain(child: subprocess.Popen[bytes], output: bytearray, output_bytes: int) -> None:
    """Read the rest of the pipe; all writers have ended or end soon."""
    assert child.stdout is not None
    deadline = time.monotonic() + LAST_WORDS_S
    with child.stdout as source, selectors.DefaultSelector() as waiting:
        waiting.register(source, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0 and waiting.select(left):
            chunk = os.read(source.fileno(), CHUNK_BYTES)
            if not chunk:
                break
            output += chunk[: max(0, output_bytes - len(output))]
    del output[output_bytes:]
