"""Runs a foreign program that makes attempts; both ends of the connection to it.

The program reads a line of JSON for each attempt, ``{"id", "task", "base_url", "model"}``, any
number at once, and writes ``{"id", "reward"}`` or ``{"id", "error", "fault"}``. Whatever else it
writes is noise, of which the log gets the beginning. One process makes all attempts of a simulator,
except for those that need one of their own; another one is started if it ended.

*What is covered.* An attempt ends whatever the program does: by its answer, by the end of its
process, or after `ProgramConfig.patience_s`. The process ends with its simulator, and all that it
started ends with it (`coevolve.environments.program.begin`). It gets few environment variables.
*What is not covered.* The program is the user's, and runs with the user's rights.
"""

import asyncio
import itertools
import json
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
import psutil
import structlog

from coevolve.environments.program.settings import ProgramConfig
from coevolve.environments.sdk import cpu_s_so_far, plain, shown
from protocols.errors import SimulatorError, SimulatorLostError

BEGIN = Path(__file__).with_name("begin.py")
MODEL = "policy"
MAX_LINE_BYTES = 1 << 20
MAX_NOISE = 200
"""Lines of noise of a process that the log gets."""

NOISE_CHARS = 400
KILLED_S = 10.0
OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM)
"""Exit statuses of processes that others may have ended."""

PASSED_ON = frozenset(
    {
        "CURL_CA_BUNDLE",
        "HOME",
        "LANG",
        "LANGUAGE",
        "LOGNAME",
        "PATH",
        "REQUESTS_CA_BUNDLE",
        "SHELL",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "TMPDIR",
        "TZ",
        "USER",
    }
)
"""Environment variables of a machine and its language; those that begin with ``LC_`` besides."""

GIVEN = {
    # Frameworks insist on a key; the base URL holds the session's.
    "OPENAI_API_KEY": "unused",
    # An answer that a program prints must not stay in its buffer.
    "PYTHONUNBUFFERED": "1",
}

_TOKEN = re.compile(r"/s/[\w-]+")
"""Where the base URL of an attempt holds its token."""

_DECODER = json.JSONDecoder()
"""Reads NaN, too, so that such a reward can be named."""

log = structlog.get_logger()


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request for an attempt."""

    task: dict[str, Any]
    base_url: str
    is_alone: bool = False
    """Whether a process makes no other attempt."""


class Rewarded(msgspec.Struct, frozen=True, kw_only=True, tag="rewarded"):
    """The program judged the attempt."""

    reward: float
    """0 to 1."""


class Stopped(msgspec.Struct, frozen=True, kw_only=True, tag="stopped"):
    """The program could not go on, by the policy's fault."""

    error: str


class Faulty(msgspec.Struct, frozen=True, kw_only=True, tag="faulty"):
    """The attempt failed, and says nothing about the policy."""

    error: str


Answered = Rewarded | Stopped | Faulty


class Programs:
    """A `protocols.interfaces.SimulatorService`."""

    def __init__(self, settings: ProgramConfig) -> None:
        self._settings = settings
        self._programs: list[Program] = []
        """Processes that live; the last one takes attempts, and those before finish theirs."""

        self._starting = asyncio.Lock()
        self._past_cpu_s = 0.0
        self._is_fit = True
        self.last_error = ""

    async def answer(self, request: bytes) -> bytes:
        """Make an attempt.

        Raises SimulatorLostError if others may have ended its process, and SimulatorError.
        """
        asked = msgspec.msgpack.decode(request, type=Asked)
        try:
            if asked.is_alone:
                answered = await self._made_alone(asked)
            else:
                program = await self._running()
                answered = await program.attempt(asked, self._settings.patience_s)
        except SimulatorError as error:
            self.last_error = str(error)
            raise
        return msgspec.msgpack.encode(answered)

    async def _made_alone(self, asked: Asked) -> Answered:
        program = await Program.started(self._settings)
        try:
            return await program.attempt(asked, self._settings.patience_s)
        except SimulatorLostError as error:
            raise SimulatorError(str(error)) from error
        finally:
            await program.close()
            self._past_cpu_s += program.cpu_s()

    async def _running(self) -> "Program":
        async with self._starting:
            self._forget()
            if not (self._programs and self._programs[-1].takes_attempts):
                self._programs.append(
                    await Program.started(self._settings, is_fit=self._newest_is_fit)
                )
            return self._programs[-1]

    @property
    def _newest_is_fit(self) -> bool:
        return self._programs[-1].is_fit if self._programs else self._is_fit

    def _forget(self) -> None:
        """Forget the processes that have ended."""
        for each in self._programs:
            if each.has_ended:
                self._past_cpu_s += each.cpu_s()
                self._is_fit = each.is_fit
        self._programs = [each for each in self._programs if not each.has_ended]

    def cpu_s(self) -> float:
        """Return the CPU seconds of the program's processes so far, as far as they were seen."""
        return self._past_cpu_s + sum(each.cpu_s() for each in self._programs)

    async def close(self) -> None:
        for each in self._programs:
            await each.close()


class Program:
    """One process of the program."""

    def __init__(self, process: asyncio.subprocess.Process, *, is_fit: bool) -> None:
        """``is_fit``: whether the one before was."""
        self._process = process
        self._was_fit = is_fit
        self._waiting: dict[int, asyncio.Future[Answered]] = {}
        self._numbers = itertools.count()
        self._noise = 0
        self._last_line = {"stdout": "", "stderr": ""}
        """The last line of each stream that answered no attempt."""

        self._has_answered = False
        self._cpu_s = 0.0
        self._is_retired = False
        self._ending = asyncio.ensure_future(self._read())

    @classmethod
    async def started(cls, settings: ProgramConfig, *, is_fit: bool = True) -> "Program":
        """Start a process. Raises SimulatorError."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command_of(settings),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=MAX_LINE_BYTES,
                start_new_session=True,
                env=environment_of(os.environ, settings),
            )
        except OSError as error:
            raise SimulatorError(f"the program cannot be started: {error}") from error
        return cls(process, is_fit=is_fit)

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended, and all its output is read."""
        return self._ending.done()

    @property
    def is_fit(self) -> bool:
        """Whether it did more than end by itself: it has answered, or somebody killed it."""
        return self._has_answered or self._process.returncode in OUTSIDE

    @property
    def takes_attempts(self) -> bool:
        """Whether it lives, and kept to its time so far."""
        return not self._is_retired and self._process.returncode is None and not self.has_ended

    async def attempt(self, asked: Asked, patience_s: float) -> Answered:
        """Return the program's answer. Raises SimulatorError if it gives none."""
        number = next(self._numbers)
        line = {"id": number, "task": asked.task, "base_url": asked.base_url, "model": MODEL}
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(patience_s):
                await self._send(json.dumps(line).encode() + b"\n")
                return await answer
        except TimeoutError as error:
            self._is_retired = True
            raise SimulatorError(
                f"the program gave no reward within environment.patience_s = {patience_s:g} s"
                f"{self._last_said()}"
            ) from error
        finally:
            del self._waiting[number]
            if self._is_retired and not self._waiting:
                self._end()

    def _last_said(self) -> str:
        """Return what the program wrote last in place of an answer; empty if nothing."""
        found = [f"{line} on {stream}" for stream, line in self._last_line.items() if line]
        due = 'the number "id" that it read beside the reward, in a line on stdout'
        return f"; needs {due}, found last {' and '.join(found)}" if found else ""

    async def _send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(ConnectionError):  # the end of the process says why
            self._process.stdin.write(line)
            await self._process.stdin.drain()

    async def _read(self) -> None:
        """Read what the program writes until it has ended; then fail the attempts it has left."""
        works = (self._read_answers(), self._read_words(), self._process.wait())
        reading = [asyncio.ensure_future(each) for each in works]
        await _ended(self._process.pid)
        kill_session(self._process.pid)  # if `begin` was killed: others may hold its pipes open
        _, alive = await asyncio.wait(reading, timeout=KILLED_S)
        for each in alive:
            each.cancel()
        status = self._process.returncode
        last = self._last_line["stderr"] or self._last_line["stdout"]
        words = f": {last}" if last else ""
        # Of several attempts one may be the cause: they are made again, until each is alone.
        may_be_anothers = self.is_fit or self._was_fit or len(self._waiting) > 1
        kind = SimulatorLostError if may_be_anothers else SimulatorError
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(kind(f"the program ended with status {status}{words}"))

    async def _read_answers(self) -> None:
        async for line in _lines(self._process.stdout):
            settled = sum(self._settle(found) for found in _objects(line))
            if not settled:
                self._note("stdout", line)

    def _settle(self, found: Mapping[str, Any]) -> bool:
        """Answer the attempt that an object is about; return whether one waits for it."""
        number = found.get("id")
        answer = self._waiting.get(number) if type(number) is int else None
        if answer is None or answer.done():
            return False
        answer.set_result(_answered(found))
        self._has_answered = True
        return True

    async def _read_words(self) -> None:
        async for line in _lines(self._process.stderr):
            self._note("stderr", line)

    def _note(self, stream: str, line: bytes) -> None:
        if not line.strip():
            return
        self._last_line[stream] = shown_line(line)
        self._noise += 1
        if self._noise <= MAX_NOISE:
            is_last = self._noise == MAX_NOISE
            log.info("program_said", stream=stream, line=shown_line(line), is_last=is_last)

    def cpu_s(self) -> float:
        """Return the CPU seconds of the process and its children, as far as they were seen."""
        self._cpu_s = max(self._cpu_s, cpu_s_so_far(self._process.pid))
        return self._cpu_s

    def _end(self) -> None:
        self.cpu_s()
        with suppress(ProcessLookupError):
            self._process.terminate()

    async def close(self) -> None:
        """End the process and all that it started."""
        self._end()
        over = asyncio.ensure_future(self._process.wait())  # Ctrl-C cancels the other one
        _, alive = await asyncio.wait((self._ending, over), timeout=KILLED_S)
        if alive:
            kill_session(self._process.pid)
            await asyncio.wait(alive, timeout=KILLED_S)


def kill_session(leader: int) -> None:
    """Kill the process groups of a session, also if its leader has ended."""
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == leader:
                os.killpg(os.getpgid(pid), signal.SIGKILL)


async def _ended(pid: int) -> None:
    """Wait for the end of a process; `asyncio` also waits for all who hold its pipes."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        loop.add_reader(handle, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(handle)
            os.close(handle)


async def _lines(stream: asyncio.StreamReader | None) -> AsyncGenerator[bytes]:
    """Yield lines; of one that is too long, pieces."""
    assert stream is not None
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            continue
        if not line:
            return
        yield line


def shown_line(line: bytes) -> str:
    """Return a line for people, without the token of a session."""
    return _TOKEN.sub("/s/***", plain(line.decode(errors="replace"), NOISE_CHARS))


def _objects(line: bytes) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects at the begin of a line; those of two threads may stand in one."""
    text = line.decode(errors="replace").strip()
    with suppress(ValueError, RecursionError):
        while text:
            found, end = _DECODER.raw_decode(text)
            if isinstance(found, dict):
                yield cast("dict[str, Any]", found)
            text = text[end:].lstrip()


def _answered(found: Mapping[str, Any]) -> Answered:
    """Return what the program says of an attempt."""
    if "error" in found:
        return _failed(found.get("fault", "machine"), shown_line(str(found["error"]).encode()))
    reward = found.get("reward")
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        return Faulty(error=f"the program needs to give a reward, found {shown(reward)}")
    if not 0.0 <= reward <= 1.0:
        return Faulty(error=f"a reward needs to be 0 to 1, found {shown(reward)}")
    return Rewarded(reward=float(reward))


def _failed(fault: object, error: str) -> Stopped | Faulty:
    known: Literal["policy", "machine"] | None = (
        "policy" if fault == "policy" else "machine" if fault == "machine" else None
    )
    if known is None:
        error = f"fault needs to be machine or policy, found {shown(fault)}; {error}"
    return Stopped(error=error) if known == "policy" else Faulty(error=error)


def command_of(settings: ProgramConfig) -> tuple[str, ...]:
    """Return the command that runs the program, and ends what it started."""
    begin = (sys.executable, "-I", "-S", str(BEGIN), str(settings.memory_mb))
    return (*begin, *settings.argv())


def environment_of(own: Mapping[str, str], settings: ProgramConfig) -> dict[str, str]:
    """Return the environment variables of a program, from our own."""
    more = settings.variables
    names = {name for name in own if name in PASSED_ON or name.startswith("LC_") or name in more}
    passed = {name: own[name] for name in names}
    return GIVEN | passed | {"PATH": settings.path(own.get("PATH", os.defpath))}
