"""Answers questions about untrusted text, each in its own process with known limits and stack.

A server is a Python module that starts once, imports what its answers need, and forks for each
question; a fork takes a fortieth of the time of a new Python process. The server itself reads no
question. If a text overflows the stack or uses up memory or time, it harms only the process that
was forked to read it.

`ForkServer` is the client, for any number of threads. A server module calls `serve` when it is run.
"""

import atexit
import contextlib
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from protocols.errors import SimulatorError

ROOT = Path(__file__).parents[4]
"""Working directory of a server, from which it imports its module."""

MOST_FRAMES = 600
"""Maximum Python frames in an answer; every process that repeats the work later has more left."""

NO_MEMORY, TOO_DEEP, RAISED = 3, 4, 5
"""Exit statuses of an answer that ran out of memory, ran out of frames, or raised another error."""

NOT_BEGUN = 1
"""Exit status of a process that ended before it began its answer."""

PATIENCE_S = 5.0
"""Seconds to wait beyond the wall-clock limit, at which the answer's process ends itself."""

CHUNK_BYTES = 65_536
_STATUS = struct.Struct("!i")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one answer."""

    cpu_s: int
    memory_mb: int
    stack_kb: int
    wall_s: int
    """Allows for a machine that gives the answer only a fraction of a processor."""


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    limits: Limits
    question: bytes


@dataclass(frozen=True, kw_only=True)
class Answered:
    """The end of an answer's process."""

    status: int
    """Exit status; negative for a signal."""

    answer: bytes
    """The answer, or the error message if the process raised an error."""


class ForkServer:
    """Sends questions to the server of a module; the first question starts the server."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._started: tuple[subprocess.Popen[bytes], socket.socket] | None = None

    def ask(self, question: bytes, limits: Limits) -> Answered:
        """Return the outcome of the question. Blocks.

        Raises SimulatorError if the machine fails to answer.
        """
        request = msgspec.msgpack.encode(_Request(limits=limits, question=question))
        mine, theirs = socket.socketpair()
        try:
            with mine:
                self._hand_over(theirs)
                mine.settimeout(limits.wall_s + PATIENCE_S)
                mine.sendall(request)
                mine.shutdown(socket.SHUT_WR)
                return _answer_in(_all_bytes(mine))
        except OSError as error:
            raise SimulatorError(f"cannot read a text in its own process: {error}") from error

    def _hand_over(self, theirs: socket.socket) -> None:
        with theirs, self._lock:
            if self._started is None or self._started[0].poll() is not None:
                self._started = self._start()
            socket.send_fds(self._started[1], [b"?"], [theirs.fileno()])

    def _start(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        mine, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(  # noqa: S603, our own module
                [sys.executable, "-m", self._module],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=ROOT,
                start_new_session=True,
            )
        atexit.register(_end, process, mine)
        return process, mine


def _end(process: "subprocess.Popen[bytes]", requests: socket.socket) -> None:
    requests.close()
    # A process forked from this one may keep the server alive; the server ends with that process.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(PATIENCE_S)


def _answer_in(received: bytes) -> Answered:
    if len(received) < _STATUS.size:
        raise SimulatorError("cannot read a text: its process was killed from outside")
    (status,) = _STATUS.unpack_from(received)
    if status == NOT_BEGUN:
        raise SimulatorError("cannot read a text: its process did not start")
    return Answered(status=status, answer=received[_STATUS.size :])


def _all_bytes(sender: socket.socket) -> bytes:
    return b"".join(iter(lambda: sender.recv(CHUNK_BYTES), b""))


def serve(answer: Callable[[bytes], bytes]) -> None:
    """Answer each question that arrives on standard input, until no client is left."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    requests = socket.socket(fileno=0)
    while True:
        _, handed, _, _ = socket.recv_fds(requests, 1, 1)
        if not handed:
            return
        with socket.socket(fileno=handed[0]) as asker:
            if os.fork() == 0:
                requests.close()
                try:
                    _attend(asker, answer)
                finally:
                    os._exit(NOT_BEGUN)


def _attend(asker: socket.socket, answer: Callable[[bytes], bytes]) -> None:
    """Fork a process for the answer, and send its status and output to the client."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request = msgspec.msgpack.decode(_all_bytes(asker), type=_Request)
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        _answer(request, writer, answer)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        found = answers.read()
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    asker.sendall(_STATUS.pack(status) + found)


def _answer(request: _Request, writer: int, answer: Callable[[bytes], bytes]) -> None:
    """Write the answer within the limits, and exit."""
    limits = request.limits
    memory = limits.memory_mb << 20
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_s, limits.cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(limits.wall_s)
    sys.setrecursionlimit(MOST_FRAMES)
    threading.stack_size(limits.stack_kb << 10)
    # A thread gets exactly the stack size that it asks for; the main thread's depends on the
    # machine.
    thread = threading.Thread(target=_write_answer, args=(request.question, writer, answer))
    thread.start()
    thread.join()


def _write_answer(question: bytes, writer: int, answer: Callable[[bytes], bytes]) -> None:
    with os.fdopen(writer, "wb") as answers:
        status, found = _outcome(question, answer)
        answers.write(found)
    os._exit(status)


def _outcome(question: bytes, answer: Callable[[bytes], bytes]) -> tuple[int, bytes]:
    try:
        return 0, answer(question)
    except MemoryError:
        return NO_MEMORY, b""
    except RecursionError:
        return TOO_DEEP, b""
    except Exception as error:  # noqa: BLE001, reported to the client
        return RAISED, f"{type(error).__name__}: {error}".encode(errors="replace")
