"""The engine's processes, and worlds in them: `coevolve.environments.appworld.engine.server`.

`Engine` starts one server for a folder of data, and another if it ended. `World` is one open task;
its process is the engine's, trusted, and separate from the one that runs the policy's code
(`coevolve.environments.appworld.interpreter`). Whatever fails here is a `SimulatorError`.
"""

import contextlib
import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from coevolve.environments.appworld import engine
from coevolve.environments.appworld.frames import LENGTH_BYTES, Answered, Called, Refused
from coevolve.environments.appworld.place import engine_folder, plain_python
from coevolve.models.scratch_folder import scratch_folder
from protocols.errors import SimulatorError

SERVER = Path(engine.__file__).parent / "server.py"
START_S = 180.0
"""Maximum seconds for a server to import the engine; an idle machine needs five."""

MAKE_S = 1800.0
MAKE = """
import sys
sys.path[:0] = [sys.argv[1]]
sys.path.append(sys.argv[2])
from pathlib import Path
import worlds
worlds.make_root(Path(sys.argv[3]), int(sys.argv[4]))
"""

ANSWER_S = 60.0
MAKE_TASKS = 30
"""Tasks that one process makes, which may take ``ANSWER_S``."""

PATIENCE_S = 5.0
TAIL_BYTES = 4096
MAX_BYTES = 64 << 20
MEMORY_MB = 4096

ReplyT = TypeVar("ReplyT")


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """What a task shows to a policy and its interpreter."""

    instruction: str
    now: str
    supervisor: dict[str, str]
    apps: dict[str, tuple[str, ...]]
    modules: tuple[str, ...]
    functions: tuple[str, ...]


class Evaluated(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of a task's own evaluator; a test is its requirement and its label."""

    success: bool
    passes: tuple[tuple[str, str], ...]
    failures: tuple[tuple[str, str], ...]


class _Outcome(msgspec.Struct, frozen=True, kw_only=True):
    value: msgspec.Raw = msgspec.Raw()
    error: str = ""
    kind: str = ""


class _Reply(msgspec.Struct, frozen=True, kw_only=True):
    answer: msgspec.Raw = msgspec.Raw()
    failure: str = ""


def make_data(root: Path, *, seed: int) -> Path:
    """Write an own world into the empty folder ``root``, and return the folder of data.

    It has no tasks yet (`Engine.make`). Blocks for ten seconds or more. Raises DependencyError and
    SimulatorError.
    """
    command = (plain_python(), "-I", "-S", "-c", MAKE, engine_folder(), SERVER.parent, root)
    try:
        subprocess.run(  # noqa: S603, our own program
            [*map(str, command), str(seed)],
            check=True,
            capture_output=True,
            text=True,
            timeout=MAKE_S,
            cwd=root,
            env={"APPWORLD_ROOT": str(root), "APPWORLD_CACHE": str(root)},
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None)
        words = _last_line(said if isinstance(said, str) else "") or error
        raise SimulatorError(f"AppWorld's engine makes no worlds in {root}: {words}") from error
    return root / "data"


class _KilledError(SimulatorError):
    """Something else killed a server while it started."""


class Engine:
    """A server of the worlds in a folder of data; for any number of threads."""

    def __init__(self, data: Path, memory_mb: int = MEMORY_MB) -> None:
        """``data`` is a folder in AppWorld's layout. Starts nothing yet.

        ``memory_mb`` limits the address space of each process.
        """
        self._data = data
        self._memory_mb = memory_mb
        self._lock = threading.Lock()
        self._server: tuple[subprocess.Popen[bytes], socket.socket] | None = None

    @property
    def pid(self) -> int:
        """Process id of the server; 0 if there is none."""
        return self._server[0].pid if self._server else 0

    def open(self, task: str) -> "World":
        """Return a fresh world of a task. Raises SimulatorError, and DependencyError."""
        return World(self._child(), task)

    def make(self, tasks: Sequence[str]) -> None:
        """Write those own tasks into the folder of data that are not there.

        A task takes a fifth of a second. Raises SimulatorError, and DependencyError.
        """
        missing = [task for task in tasks if not (self._data / "tasks" / task).is_dir()]
        for start in range(0, len(missing), MAKE_TASKS):
            with contextlib.closing(Link(self._child())) as link:
                link.answer({"make": missing[start : start + MAKE_TASKS]}, bool)

    def _child(self) -> socket.socket:
        """Return the socket of a new process. Raises SimulatorError, and DependencyError."""
        mine, theirs = socket.socketpair()
        mine.settimeout(ANSWER_S)
        try:
            with theirs, self._lock:
                if self._server is None or self._server[0].poll() is not None:
                    self._forget()
                    self._server = self._start()
                socket.send_fds(self._server[1], [b"?"], [theirs.fileno()])
        except OSError as error:
            mine.close()
            raise SimulatorError(f"AppWorld's engine opens no world: {error}") from error
        return mine

    def close(self) -> None:
        """End the server; open worlds go on until they are closed."""
        with self._lock:
            self._forget()

    def _start(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        command = [plain_python(), "-I", "-S", SERVER, engine_folder(), self._data]
        command.append(str(self._memory_mb))
        try:
            return self._started(command)
        except _KilledError:
            return self._started(command)

    def _started(
        self, command: Sequence[str | Path]
    ) -> tuple[subprocess.Popen[bytes], socket.socket]:
        mine, theirs = socket.socketpair()
        mine.settimeout(START_S)
        with tempfile.TemporaryFile() as said:
            with theirs:
                process = subprocess.Popen(  # noqa: S603, our own program
                    command,
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                    cwd="/",
                    env={},
                    start_new_session=True,
                )
            kind = SimulatorError
            try:
                if mine.recv(1) == b"!":
                    return process, mine
                if process.wait(PATIENCE_S) < 0:
                    kind = _KilledError
            except (OSError, subprocess.TimeoutExpired):
                process.kill()
                process.wait()
            mine.close()
            cause = _tail(said) or f"it ended with {process.returncode}"
            raise kind(f"AppWorld's engine does not start on the data in {self._data}: {cause}")

    def _forget(self) -> None:
        if self._server:
            process, orders = self._server
            orders.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S)
        self._server = None


class Link:
    """Orders to a process of the engine, and its answers.

    An order without a proper answer closes it, so that no later order gets an older one's answer.
    """

    def __init__(self, held: socket.socket) -> None:
        self._held = held

    def close(self) -> None:
        """End the process."""
        self._held.close()

    def answer(self, order: Mapping[str, Any], kind: type[ReplyT]) -> ReplyT:
        """Return the answer to an order. Raises SimulatorError."""
        content = msgspec.json.encode(order)
        try:
            self._held.sendall(len(content).to_bytes(LENGTH_BYTES, "little") + content)
            reply = msgspec.json.decode(self._frame(), type=_Reply)
            if not reply.failure:
                return msgspec.json.decode(reply.answer, type=kind)
        except (OSError, msgspec.MsgspecError, RecursionError) as error:
            self.close()
            raise SimulatorError(f"AppWorld's engine does not answer: {error}") from error
        raise SimulatorError(f"AppWorld's engine fails: {reply.failure}")

    def _frame(self) -> bytes:
        size = int.from_bytes(self._exactly(LENGTH_BYTES), "little")
        if size > MAX_BYTES:
            raise ConnectionError(f"it sends a frame of {size} bytes")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        content = bytearray()
        while len(content) < size:
            chunk = self._held.recv(min(size - len(content), 1 << 20))
            if not chunk:
                raise ConnectionError("it ended a world")
            content += chunk
        return bytes(content)


class World:
    """One open task; not for several threads at once."""

    def __init__(self, held: socket.socket, task: str) -> None:
        """Open it. Raises SimulatorError."""
        self._link = Link(held)
        self._folder = scratch_folder()
        try:
            self.opened = self._link.answer(
                {"task": task, "folder": str(self._folder.path)}, Opened
            )
        except BaseException:
            self.close()
            raise

    def call(self, call: Called) -> Answered | Refused:
        """Return an API's answer, or the error that it raises. Raises SimulatorError."""
        order = {"order": "call", "app": call.app, "api": call.api, "arguments": call.arguments}
        outcome = self._link.answer(order, _Outcome)
        if outcome.kind:
            return Refused(error=outcome.error, kind=outcome.kind)
        return Answered(value=outcome.value)

    def completed(self) -> bool:
        """Return whether the task was completed. Raises SimulatorError."""
        return self._link.answer({"order": "completed"}, bool)

    def cpu_s(self) -> float:
        """Return the CPU seconds of the world's process. Raises SimulatorError."""
        return self._link.answer({"order": "cpu_s"}, float)

    def digests(self) -> Mapping[str, str]:
        """Return a digest of each table with rows, by name. Raises SimulatorError."""
        return self._link.answer({"order": "digests"}, dict[str, str])

    def evaluated(self) -> Evaluated:
        """Return the verdict of the task's evaluator. Raises SimulatorError."""
        return self._link.answer({"order": "evaluated"}, Evaluated)

    def close(self) -> None:
        """End the world's process, and remove its folder."""
        self._link.close()
        self._folder.remove()


def _tail(said: IO[bytes]) -> str:
    """Return the last line of what a process wrote, within `TAIL_BYTES`."""
    end = said.seek(0, os.SEEK_END)
    said.seek(max(0, end - TAIL_BYTES))
    return _last_line(said.read().decode(errors="replace"))


def _last_line(text: str) -> str:
    """Return the last line that is not blank; empty if there is none."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
