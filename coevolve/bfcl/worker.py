"""A `protocols.interfaces.SimulatorWorker` over one BFCL child process.

Promises: one batch at a time, within ``timeout_s`` of wall clock; a child that died or got stuck is
replaced, at most once a batch; the sessions that it held are `Broken` until they are reset, and
nothing is ever graded in their place. A child that was found dead before a batch costs that batch
nothing but a start. What the child limits, and what it does not, is said in `coevolve.bfcl.child`.
"""

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import msgspec
import structlog

import coevolve
from coevolve.bfcl.frames import LENGTH_BYTES, Answers, answers_decoder, frame, length
from protocols.config import SimulatorConfig
from protocols.errors import SimulatorError
from protocols.simulation import Act, Broken, Command, Ready, Release, Reply, Trial

START_S = 60.0
"""Wall clock for a child to load the simulators; a second or less on an idle machine."""

LAST_WORDS_BYTES = 2000
LAST_WORDS_S = 1.0

log = structlog.get_logger()


class Child:
    """One live child process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._last_words = b""
        self._listening = asyncio.create_task(self._listen())
        self.cpu_s = 0.0

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process is not known to have ended."""
        return self._process.returncode is None

    async def ready(self, limit_s: float) -> None:
        """Wait until the child can work. Raises SimulatorError."""
        async with self._answering(limit_s):
            await self._receive()

    async def exchange(self, commands: Sequence[Command], limit_s: float) -> tuple[Reply, ...]:
        """Carry out one batch. Raises SimulatorError."""
        assert self._process.stdin is not None
        async with self._answering(limit_s):
            self._process.stdin.write(_framed(commands))
            await self._process.stdin.drain()
            replies = await self._receive()
        if len(replies) != len(commands):
            raise SimulatorError(f"{len(replies)} answers from the child to {len(commands)} calls")
        return replies

    async def _receive(self) -> tuple[Reply, ...]:
        assert self._process.stdout is not None
        prefix = await self._process.stdout.readexactly(LENGTH_BYTES)
        content = await self._process.stdout.readexactly(length(prefix))
        answers: Answers = answers_decoder.decode(content)
        self.cpu_s = answers.cpu_s
        return answers.replies

    @contextlib.asynccontextmanager
    async def _answering(self, limit_s: float) -> AsyncGenerator[None]:
        """Say in one sentence how the child failed to answer."""
        try:
            async with asyncio.timeout(limit_s):
                yield
        except TimeoutError as error:
            raise SimulatorError(f"no answer from the child within {limit_s} s") from error
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise SimulatorError(f"the child ended{await self._ending()}") from error
        except (ValueError, msgspec.MsgspecError) as error:
            raise SimulatorError(f"the child does not keep to the protocol: {error}") from error

    async def kill(self) -> None:
        """End the process and wait until it is gone."""
        if self.alive:
            self._process.kill()
        await self._process.wait()
        self._listening.cancel()

    async def _listen(self) -> None:
        """Keep the end of what the child writes to standard error."""
        assert self._process.stderr is not None
        while content := await self._process.stderr.read(LAST_WORDS_BYTES):
            self._last_words = (self._last_words + content)[-LAST_WORDS_BYTES:]

    async def _ending(self) -> str:
        """Return how the process ended; it is killed where it only closed its output."""
        try:
            async with asyncio.timeout(LAST_WORDS_S):
                code = await self._process.wait()
        except TimeoutError:
            self._process.kill()
            code = await self._process.wait()
        await asyncio.wait([self._listening], timeout=LAST_WORDS_S)
        lines = self._last_words.decode(errors="replace").strip().splitlines()
        return f" with status {code}" + (f": {lines[-1]}" if lines else "")


class BfclWorker:
    """Sessions of BFCL's simulators in a child process; starts it with the first batch."""

    restarts: int
    """Children that had to be replaced."""

    last_error: str
    """What was wrong with the last of them; empty where there was none."""

    def __init__(self, config: SimulatorConfig, python: str = sys.executable) -> None:
        self._config = config
        self._python = python
        self._child: Child | None = None
        self._ended_cpu_s = 0.0
        self._turn = asyncio.Lock()
        self._closed = False
        self.restarts = 0
        self.last_error = ""

    @property
    def pid(self) -> int:
        """Process id of the child; 0 where none runs."""
        return self._child.pid if self._child is not None and self._child.alive else 0

    async def execute(self, commands: Sequence[Command]) -> Sequence[Reply]:
        """Carry out ``commands`` in order; see `protocols.interfaces.SimulatorWorker`."""
        async with self._turn:
            try:
                child = await self._living()
                return await child.exchange(commands, self._config.timeout_s)
            except SimulatorError as error:
                await self._drop(str(error))
                return [_lost(command, str(error)) for command in commands]
            except asyncio.CancelledError:
                await self._drop("a batch was cancelled")
                raise

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
        try:
            process = await asyncio.create_subprocess_exec(
                *(self._python, "-P", "-m", "coevolve.bfcl.child"),
                *("--parent", str(os.getpid())),
                *("--memory-mb", str(self._config.memory_mb)),
                *("--batch-s", str(self._config.timeout_s)),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=_environment(),
                start_new_session=True,  # an interrupt at the terminal is for the parent to handle
            )
        except OSError as error:
            raise SimulatorError(f"the child cannot be started: {error}") from error
        child = Child(process)
        try:
            await child.ready(START_S)
        except BaseException:
            await child.kill()
            raise
        return child

    async def _drop(self, reason: str) -> None:
        if self._closed:
            return
        self.restarts += 1
        self.last_error = reason
        log.warning("simulator_child_lost", reason=reason, restarts=self.restarts)
        await self._end()

    async def _end(self) -> None:
        if self._child is not None:
            child, self._child = self._child, None
            self._ended_cpu_s += child.cpu_s
            await child.kill()


def _environment() -> dict[str, str]:
    """Return all that a child gets to know: no keys, and the same order of sets in every child."""
    return {
        "PYTHONPATH": str(Path(coevolve.__file__).parent.parent),
        "PYTHONHASHSEED": "0",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
    }


def _framed(commands: Sequence[Command]) -> bytes:
    try:
        return frame(tuple(commands))
    except UnicodeEncodeError:
        return frame(tuple(map(_printable, commands)))


def _printable(command: Command) -> Command:
    """Replace what UTF-8 cannot carry in a policy's text."""
    match command:
        case Act(text=text):
            return msgspec.structs.replace(command, text=_utf8(text))
        case Trial(turns=turns):
            played = tuple(tuple(map(_utf8, calls)) for calls in turns)
            return msgspec.structs.replace(command, turns=played)
        case _:
            return command


def _utf8(text: str) -> str:
    return text.encode(errors="replace").decode()


def _lost(command: Command, reason: str) -> Reply:
    return Ready() if isinstance(command, Release) else Broken(reason=reason)
