"""A program in the sandbox that lives on between exchanges with its owner, over pipes.

The owner writes to the program's standard input and reads its standard output. Whatever the program
does, an exchange ends by its wall-clock limit and takes at most so many bytes. The program's
standard error is read only at its end, and at most one pipe's capacity of it.

The program and all its processes end with `PipedProgram.close`, or when the *thread* that opened it
ends; with the owner's process at the latest.
"""

import os
import select
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from coevolve.environments.sandbox.supervision import CHUNK_BYTES, Confined, cpu_s_so_far, reap
from protocols.errors import CoevolveError


class PipeBrokenError(CoevolveError):
    """The program has ended, closed a pipe, or reached a limit of an exchange."""


@dataclass(frozen=True, kw_only=True)
class Closed:
    """The end of a program."""

    code: int
    """Exit status; negative for a signal. It is -9 if the owner ended it."""

    words: str
    """What it wrote to standard error, at most a pipe's capacity."""

    cpu_s: float
    """CPU seconds of the program, and of those of its processes that were waited for or still ran
    at its kill."""


class PipedProgram:
    """One program; not for several threads at once."""

    def __init__(
        self,
        confined: Confined,
        *,
        environment: Mapping[str, str],
        wall_s: float,
        output_bytes: int,
        held: ExitStack,
    ) -> None:
        """Start the program, and the first exchange; ``held`` is closed with it. Raises OSError."""
        self._output_bytes = output_bytes
        self._confined = confined
        self._held = held
        self._process = subprocess.Popen(  # noqa: S603, the sandbox's purpose
            confined.argv,
            cwd=confined.cwd,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            pass_fds=tuple(confined.pass_fds),
        )
        streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._streams = [stream for stream in streams if stream is not None]
        self._write_fd, self._read_fd, self._words_fd = (each.fileno() for each in self._streams)
        for each in self._streams:
            os.set_blocking(each.fileno(), False)
        self._closed: Closed | None = None
        self.renew(wall_s)

    @property
    def pid(self) -> int:
        """Process id of the sandbox's outermost process."""
        return self._process.pid

    def renew(self, wall_s: float) -> None:
        """Begin an exchange of at most ``wall_s`` seconds; the bytes, too, count from here."""
        self._wall_s = wall_s
        self._deadline = time.monotonic() + wall_s
        self._left_bytes = self._output_bytes

    def send(self, content: bytes) -> None:
        """Write to the program's standard input. Raises PipeBrokenError."""
        left = memoryview(content)
        while left:
            self._await(self._write_fd, select.POLLOUT)
            try:
                left = left[os.write(self._write_fd, left) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise PipeBrokenError("the program closed its input, or ended") from error

    def receive(self, size: int) -> bytes:
        """Read exactly ``size`` bytes of the program's standard output. Raises PipeBrokenError."""
        if size > self._left_bytes:
            raise PipeBrokenError(f"the program writes more than {self._output_bytes} bytes")
        self._left_bytes -= size
        content = bytearray()
        while len(content) < size:
            self._await(self._read_fd, select.POLLIN)
            try:
                chunk = os.read(self._read_fd, min(size - len(content), CHUNK_BYTES))
            except BlockingIOError:
                continue
            if not chunk:
                raise PipeBrokenError("the program closed its output, or ended")
            content += chunk
        return bytes(content)

    def own_end(self, wait_s: float) -> int | None:
        """Return the status with which the program ended by itself, or was ended by others.

        It is that of `Closed.code`. None if the program goes on for ``wait_s`` seconds.
        """
        handle = os.pidfd_open(self._process.pid)
        try:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            poll.poll(wait_s * 1000)
        finally:
            os.close(handle)
        ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if ended is None:
            return None
        signaled = ended.si_code != os.CLD_EXITED
        return self._confined.code(-ended.si_status if signaled else ended.si_status)

    def close(self) -> Closed:
        """Kill the program with all its processes, and return its end; idempotent."""
        if self._closed is None:
            spent_s = cpu_s_so_far(self._process.pid)
            self._confined.kill(self._process.pid)
            code, cpu_s = reap(self._process)
            words = self._last_words()
            for stream in self._streams:
                stream.close()
            self._held.close()
            self._closed = Closed(
                code=self._confined.code(code), words=words, cpu_s=max(cpu_s, spent_s)
            )
        return self._closed

    def _await(self, fd: int, event: int) -> None:
        poll = select.poll()
        poll.register(fd, event)
        left_s = self._deadline - time.monotonic()
        if left_s <= 0 or not poll.poll(left_s * 1000):
            raise PipeBrokenError(f"the program takes more than {self._wall_s:g} s")

    def _last_words(self) -> str:
        try:
            return os.read(self._words_fd, CHUNK_BYTES).decode(errors="replace")
        except BlockingIOError:
            return ""
