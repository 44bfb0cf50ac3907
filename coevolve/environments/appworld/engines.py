"""The engine's processes, and worlds in them: `coevolve.environments.appworld.engine.server`.

`Engine` starts one server for a folder of data, and another if it ended. `World` is one open task;
its process is the engine's, trusted, and separate from the one that runs the policy's code
(`coevolve.environments.appworld.interpreter`). Whatever fails here is a `SimulatorError`.
"""

import contextlib
import socket
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

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
worlds.make_root(Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
"""

ANSWER_S = 60.0
PATIENCE_S = 5.0
MAX_BYTES = 64 << 20

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


def make_data(root: Path, *, scenarios: int, seed: int) -> Path:
    """Write own worlds and tasks into the empty folder ``root``, and return the folder of data.

    Each own template has ``scenarios`` scenarios of three tasks. Blocks for ten seconds or more.
    Raises DependencyError and SimulatorError.
    """
    command = (plain_python(), "-I", "-S", "-c", MAKE, engine_folder(), SERVER.parent, root)
    try:
        subprocess.run(  # noqa: S603, our own program
            [*map(str, command), str(scenarios), str(seed)],
            check=True,
            capture_output=True,
            text=True,
            timeout=MAKE_S,
            cwd=root,
            env={"APPWORLD_ROOT": str(root), "APPWORLD_CACHE": str(root)},
        )
    except (OSError, subprocess.SubprocessError) as error:
        words = str(getattr(error, "stderr", "") or error).strip().splitlines()[-1]
        raise SimulatorError(f"AppWorld's engine makes no worlds in {root}: {words}") from error
    return root / "data"


class Engine:
    """A server of the worlds in a folder of data; for any number of threads."""

    def __init__(self, data: Path) -> None:
        """``data`` is a folder in AppWorld's layout. Starts nothing yet."""
        self._data = data
        self._lock = threading.Lock()
        self._server: tuple[subprocess.Popen[bytes], socket.socket] | None = None

    @property
    def pid(self) -> int:
        """Process id of the server; 0 if there is none."""
        return self._server[0].pid if self._server else 0

    def open(self, task: str) -> "World":
        """Return a fresh world of a task. Raises SimulatorError, and DependencyError."""
        mine, theirs = socket.socketpair()
        try:
            with theirs, self._lock:
                if self._server is None or self._server[0].poll() is not None:
                    self._forget()
                    self._server = self._start()
                socket.send_fds(self._server[1], [b"?"], [theirs.fileno()])
            return World(mine, task)
        except OSError as error:
            mine.close()
            raise SimulatorError(f"AppWorld's engine opens no world: {error}") from error

    def close(self) -> None:
        """End the server; open worlds go on until they are closed."""
        with self._lock:
            self._forget()

    def _start(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        command = [plain_python(), "-I", "-S", SERVER, engine_folder(), self._data]
        mine, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(  # noqa: S603, our own program
                command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        mine.settimeout(START_S)
        try:
            started = mine.recv(1) == b"!"
        except OSError:
            started = False
        if not started:
            process.kill()
            process.wait()
            mine.close()
            raise SimulatorError(f"AppWorld's engine does not start on the data in {self._data}")
        return process, mine

    def _forget(self) -> None:
        if self._server:
            process, orders = self._server
            orders.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S)
        self._server = None


class World:
    """One open task; not for several threads at once."""

    def __init__(self, link: socket.socket, task: str) -> None:
        """Open it. Raises SimulatorError."""
        self._link = link
        self._folder = scratch_folder()
        link.settimeout(ANSWER_S)
        try:
            self.opened = self._answer({"task": task, "folder": str(self._folder.path)}, Opened)
        except BaseException:
            self.close()
            raise

    def call(self, call: Called) -> Answered | Refused:
        """Return an API's answer, or the error that it raises. Raises SimulatorError."""
        order = {"order": "call", "app": call.app, "api": call.api, "arguments": call.arguments}
        outcome = self._answer(order, _Outcome)
        if outcome.kind:
            return Refused(error=outcome.error, kind=outcome.kind)
        return Answered(value=outcome.value)

    def completed(self) -> bool:
        """Return whether the task was completed. Raises SimulatorError."""
        return self._answer({"order": "completed"}, bool)

    def digests(self) -> Mapping[str, str]:
        """Return a digest of each table with rows, by name. Raises SimulatorError."""
        return self._answer({"order": "digests"}, dict[str, str])

    def evaluated(self) -> Evaluated:
        """Return the verdict of the task's evaluator. Raises SimulatorError."""
        return self._answer({"order": "evaluated"}, Evaluated)

    def close(self) -> None:
        """End the world's process, and remove its folder."""
        self._link.close()
        self._folder.remove()

    def _answer(self, order: Mapping[str, Any], kind: type[ReplyT]) -> ReplyT:
        content = msgspec.json.encode(order)
        try:
            self._link.sendall(len(content).to_bytes(LENGTH_BYTES, "little") + content)
            size = int.from_bytes(self._exactly(LENGTH_BYTES), "little")
            if size > MAX_BYTES:
                raise SimulatorError(f"AppWorld's engine sends a frame of {size} bytes")
            reply = msgspec.json.decode(self._exactly(size), type=_Reply)
        except OSError as error:
            raise SimulatorError(f"AppWorld's engine does not answer: {error}") from error
        if reply.failure:
            raise SimulatorError(f"AppWorld's engine fails: {reply.failure}")
        return msgspec.json.decode(reply.answer, type=kind)

    def _exactly(self, size: int) -> bytes:
        content = bytearray()
        while len(content) < size:
            chunk = self._link.recv(min(size - len(content), 1 << 20))
            if not chunk:
                raise SimulatorError("AppWorld's engine ended a world")
            content += chunk
        return bytes(content)
