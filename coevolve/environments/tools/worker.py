"""A `coevolve.environments.tools.interfaces.SimulatorWorker` with one child process.

It executes one batch at a time. Each try of a batch is limited to ``timeout_s`` of wall clock plus
the CPU time of its steps. If a command exhausts its child, another child takes over: the command
ends its own session, and the others go on unchanged (`tools.histories`). A child that died for
another reason or got stuck is replaced, at most once per batch; its sessions are `Broken` until
they are reset, and no verdict is invented for them. If a child is found dead before a batch, the
batch only pays for a new start. `tools.child` lists what the child limits and what it does not.
"""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import msgspec
import structlog

from coevolve.base.foreign import plain
from coevolve.base.shipped import import_folder
from coevolve.base.waiting import doing
from coevolve.environments.cache_folder import passed_on
from coevolve.environments.tools.commands import (
    Broken,
    Command,
    Ready,
    Release,
    Reply,
    Reset,
    Trial,
    sendable,
)
from coevolve.environments.tools.endings import COMMAND_CPU_S, OUT_OF_TIME
from coevolve.environments.tools.frames import (
    NUMBER_BYTES,
    answer_decoder,
    frame,
    frame_bytes,
    number,
)
from coevolve.environments.tools.histories import Histories
from coevolve.environments.tools.place import PLACE_BYTES, STEP_CHARS, Place
from protocols.config import SimulatorConfig
from protocols.errors import SimulatorError

START_S = 60.0
"""Maximum seconds for a child to load the simulators; an idle machine needs a second or less."""

LAST_WORDS_BYTES = 2000
LAST_WORDS_S = 1.0

log = structlog.get_logger()


class ExhaustedError(SimulatorError):
    """A command used up the CPU time that a child has for one command."""

    def __init__(self, position: int) -> None:
        """``position`` is that of the command in its batch."""
        super().__init__(f"command {position} of a batch exhausted the child's CPU time")
        self.position = position


class Child:
    """One running child process."""

    def __init__(self, process: Process, place: Place) -> None:
        self._process = process
        self._place = place
        self._last_words = b""
        self._listening = asyncio.create_task(self._listen())
        self.cpu_s = 0.0

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process has not been seen to end."""
        return self._process.returncode is None

    async def ready(self, limit_s: float) -> None:
        """Wait until the child is ready. Raises SimulatorError."""
        async with self._answering(limit_s):
            await self._receive()

    async def exchange(self, commands: Sequence[Command], limit_s: float) -> tuple[Reply, ...]:
        """Execute one batch. Raises SimulatorError or its subclass ExhaustedError."""
        assert self._process.stdin is not None
        async with self._answering(limit_s):
            # The child answers while it still receives commands; waiting for the end of the sending
            # would be a deadlock.
            self._process.stdin.write(number(len(commands)) + b"".join(map(frame, commands)))
            with doing(self._where):
                return tuple([await self._receive() for _ in commands])

    async def _receive(self) -> Reply:
        assert self._process.stdout is not None
        prefix = await self._process.stdout.readexactly(NUMBER_BYTES)
        content = await self._process.stdout.readexactly(frame_bytes(prefix))
        answer = answer_decoder.decode(content)
        self.cpu_s = answer.cpu_s
        return answer.reply

    @contextlib.asynccontextmanager
    async def _answering(self, limit_s: float) -> AsyncGenerator[None]:
        """Raise SimulatorError with one sentence if the child fails to answer."""
        try:
            async with asyncio.timeout(limit_s):
                yield
        except TimeoutError as error:
            raise SimulatorError(
                f"no answer from the child within {limit_s} s{self._where()}"
            ) from error
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            ending = await self._ending()
            if self._process.returncode == -signal.SIGXCPU:
                raise ExhaustedError(self._place.position) from error
            raise SimulatorError(f"the child ended{self._where()}{ending}") from error
        except (ValueError, msgspec.MsgspecError) as error:
            raise SimulatorError(f"the child violates the protocol: {error}") from error

    def _where(self) -> str:
        """Return in which call the child was, for a message."""
        step = self._place.step
        return f" in the call {plain(step, STEP_CHARS)}" if step else ""

    async def kill(self) -> None:
        """Kill the process and wait until it has ended."""
        if self.alive:
            self._process.kill()
        await self._process.wait()
        self._listening.cancel()
        self._place.close()

    async def _listen(self) -> None:
        """Keep the last bytes that the child writes to standard error."""
        assert self._process.stderr is not None
        while content := await self._process.stderr.read(LAST_WORDS_BYTES):
            self._last_words = (self._last_words + content)[-LAST_WORDS_BYTES:]

    async def _ending(self) -> str:
        """Return how the process ended; kill it if it only closed its output."""
        try:
            async with asyncio.timeout(LAST_WORDS_S):
                code = await self._process.wait()
        except TimeoutError:
            self._process.kill()
            code = await self._process.wait()
        await asyncio.wait([self._listening], timeout=LAST_WORDS_S)
        lines = self._last_words.decode(errors="replace").strip().splitlines()
        return f" with status {code}" + (f": {lines[-1]}" if lines else "")


class ToolWorker:
    """A worker whose sessions are in a child process; the first batch starts the child."""

    restarts: int
    """Number of children that were replaced."""

    last_error: str
    """The failure of the last replaced child; empty if there is none."""

    def __init__(
        self,
        config: SimulatorConfig,
        tool_sets: Sequence[str],
        *,
        python: str = sys.executable,
        folders: Sequence[Path] = (),
    ) -> None:
        """Store the settings; the first batch starts a child.

        Args:
            config: Limits of the child.
            tool_sets: Names of the tool sets of its worlds; the child can load no others later.
            python: The interpreter of the child.
            folders: Further folders that the child imports from.
        """
        self._config = config
        self._tool_sets = tuple(tool_sets)
        self._folders = tuple(folders)
        self._python = python
        self._child: Child | None = None
        self._ended_cpu_s = 0.0
        self._turn = asyncio.Lock()
        self._closed = False
        self._histories = Histories()
        self.restarts = 0
        self.last_error = ""

    @property
    def pid(self) -> int:
        """Process id of the child; 0 if none is running."""
        return self._child.pid if self._child is not None and self._child.alive else 0

    async def execute(self, commands: Sequence[Command]) -> Sequence[Reply]:
        readable = [sendable(command) for command in commands]
        async with self._turn:
            try:
                return await self._replies(readable)
            except SimulatorError as error:
                await self._drop(str(error))
                return [_lost(command, str(error)) for command in commands]
            except asyncio.CancelledError:
                await self._drop("a batch was cancelled")
                raise

    async def _replies(self, commands: Sequence[Command]) -> tuple[Reply, ...]:
        """Return the replies; a command that exhausted one child is not sent to the next."""
        guilty: set[int] = set()
        while True:
            child = await self._living()
            replies = self._histories.answered(commands, guilty)
            sent = [index for index in range(len(commands)) if index not in replies]
            try:
                found = await self._exchange(child, [commands[index] for index in sent])
            except ExhaustedError as error:
                if isinstance(commands[sent[error.position]], Reset | Release):
                    raise  # caused by the task, not by a policy
                guilty.add(sent[error.position])
                await self._replace(str(error))
                continue
            replies |= dict(zip(sent, found, strict=True))
            answers = tuple(replies[index] for index in range(len(commands)))
            self._histories.record(commands, answers)
            return answers

    async def _exchange(self, child: Child, commands: Sequence[Command]) -> tuple[Reply, ...]:
        limit_s = self._config.timeout_s + COMMAND_CPU_S * sum(map(_steps, commands))
        return await child.exchange(commands, limit_s)

    async def _replace(self, reason: str) -> None:
        """Start another child and reopen the sessions of the last one in it. Raises SimulatorError.

        A session that exhausts the child during its replay ends too.
        """
        while True:
            self._count(reason)
            await self._end()
            self._child = await self._start()
            commands = self._histories.replay()
            try:
                await self._exchange(self._child, commands)
            except ExhaustedError as error:
                if isinstance(commands[error.position], Reset):
                    raise
                self._histories.end(commands[error.position].session, OUT_OF_TIME)
                reason = str(error)
            else:
                return

    async def close(self) -> None:
        """End the child; later batches are `Broken`."""
        self._closed = True
        await self._end()

    def cpu_s(self) -> float:
        """Return the CPU seconds of all children, as of their last answers."""
        return self._ended_cpu_s + (self._child.cpu_s if self._child is not None else 0.0)

    async def _living(self) -> Child:
        if self._child is not None and not self._child.alive:
            await self._drop("the child ended between two batches")
        if self._child is None:
            self._child = await self._start()
        return self._child

    async def _start(self) -> Child:
        if self._closed:
            raise SimulatorError("the simulator is closed")
        memory = os.memfd_create("place")
        try:
            os.ftruncate(memory, PLACE_BYTES)
            place = Place(memory)
            process = await asyncio.create_subprocess_exec(
                *(self._python, "-P", "-m", "coevolve.environments.tools.child"),
                *("--parent", str(os.getpid())),
                *("--memory-mb", str(self._config.memory_mb)),
                *("--place-fd", str(memory)),
                *self._tool_sets,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=_environment(self._importable()),
                pass_fds=(memory,),
                start_new_session=True,  # the parent handles an interrupt from the terminal
            )
        except OSError as error:
            raise SimulatorError(f"the child cannot be started: {error}") from error
        finally:
            os.close(memory)
        child = Child(process, place)
        try:
            await child.ready(START_S)
        except BaseException:
            await child.kill()
            raise
        return child

    def _importable(self) -> tuple[str, ...]:
        """Return the folders that the child imports from besides its interpreter's own.

        With this process's interpreter, they include those of its ``PYTHONPATH``, because any of
        coevolve's dependencies may be there.
        """
        own = [str(import_folder()), *map(str, self._folders)]
        if self._python == sys.executable:
            named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
            own += [str(Path(folder).absolute()) for folder in named if folder]
        return tuple(own)

    async def _drop(self, reason: str) -> None:
        """End the child; its sessions are lost."""
        self._histories.clear()
        if not self._closed:
            self._count(reason)
            await self._end()

    def _count(self, reason: str) -> None:
        self.restarts += 1
        self.last_error = reason
        log.warning("simulator_child_lost", reason=reason, restarts=self.restarts)

    async def _end(self) -> None:
        if self._child is not None:
            child, self._child = self._child, None
            self._ended_cpu_s += child.cpu_s
            await child.kill()


def _environment(folders: Sequence[str]) -> dict[str, str]:
    """Return the child's environment variables: no keys, and the same hash seed in every child.

    The cache's place leads it to the packages that environments installed there.
    """
    return {
        "PYTHONPATH": os.pathsep.join(folders),
        "PYTHONHASHSEED": "0",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
    } | passed_on()


def _steps(command: Command) -> int:
    """Return the number of steps of a command, each with its own CPU time."""
    match command:
        case Trial(turns=turns):
            return 1 + sum(1 + len(calls) for calls in turns)
        case _:
            return 1


def _lost(command: Command, reason: str) -> Reply:
    return Ready() if isinstance(command, Release) else Broken(reason=reason)
