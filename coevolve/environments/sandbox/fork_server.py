"""Runs questions about foreign text in a process each, whose limits and stack are known.

A server is a Python module that is started once, imports what its answers need, and forks for each
question, which takes a fortieth of the time that starting Python takes. The server itself reads no
question. So whatever a text does to the process that reads it (the stack that it overflows, the
memory and time that it takes), it does to a process that is there for it alone.

`ForkServer` is the asking end, for any number of threads. A module that is to be a server calls
`serve` when it is run.
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

ROOT = Path(__file__).parents[3]
"""Where a server finds its module."""

MOST_FRAMES = 600
"""Of Python, in an answer: fewer than any process has left that does the same after it."""

NO_MEMORY, TOO_DEEP, RAISED = 3, 4, 5
"""Exit statuses of answers that ran out of memory or of frames, or raised anything else."""

NOT_BEGUN = 1
"""Exit status of a process that did not come as far as its answer."""

PATIENCE_S = 5.0
"""Beyond the limit on wall-clock time, at which the answer ends itself."""

CHUNK_BYTES = 65_536
_STATUS = struct.Struct("!i")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one answer may take."""

    cpu_s: int
    memory_mb: int
    stack_kb: int
    wall_s: int
    """For a machine that gives the answer a fraction of a processor."""


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    limits: Limits
    question: bytes


@dataclass(frozen=True, kw_only=True)
class Answered:
    """A process that came to its end."""

    status: int
    """Exit status; negative for a signal."""

    answer: bytes
    """What was raised, in words, where anything was."""


class ForkServer:
    """Asks the server that a module is; starts it with the first question."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._started: tuple[subprocess.Popen[bytes], socket.socket] | None = None

    def ask(self, question: bytes, limits: Limits) -> Answered:
        """Return what became of the question. Blocks.

        Raises SimulatorError where the machine does not answer it.
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
            raise SimulatorError(
                f"a text could not be read in a process of its own: {error}"
            ) from error

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
    # A process that was forked from this one may keep the server, which then ends with that one.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(PATIENCE_S)


def _answer_in(received: bytes) -> Answered:
    if len(received) < _STATUS.size:
        raise SimulatorError("a text could not be read: its process was ended from outside")
    (status,) = _STATUS.unpack_from(received)
    if status == NOT_BEGUN:
        raise SimulatorError("a text could not be read: its process could not begin")
    return Answered(status=status, answer=received[_STATUS.size :])


def _all_bytes(sender: socket.socket) -> bytes:
    return b"".join(iter(lambda: sender.recv(CHUNK_BYTES), b""))


def serve(answer: Callable[[bytes], bytes]) -> None:
    """Answer each question that comes over the standard input, until nobody can ask any more."""
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
    """Tell the asker what became of its question."""
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
    """Write the answer, within the limits, and exit."""
    limits = request.limits
    memory = limits.memory_mb << 20
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_s, limits.cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(limits.wall_s)
    sys.setrecursionlimit(MOST_FRAMES)
    threading.stack_size(limits.stack_kb << 10)
    # A thread's stack is as large as it was asked for; that of the main thread is the machine's.
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
    except Exception as error:  # noqa: BLE001, told to whoever asked
        return RAISED, f"{type(error).__name__}: {error}".encode(errors="replace")
