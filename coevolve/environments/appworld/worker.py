"""A `coevolve.environments.tools.interfaces.SimulatorWorker` whose sessions are worlds and code.

Each session has two processes: a world of the engine, which is trusted, and an interpreter, which
is not. Sessions go on at the same time, each in a thread. Whatever ends a process from outside, a
`kill -9` for example, breaks that session alone: its next command is answered `Broken`, the rollout
fails, and no reward is invented. A server of the engine that died is started again.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec
import structlog

from coevolve.environments.appworld.engines import Engine
from coevolve.environments.appworld.session import (
    Session,
    State,
    digest_of,
    opened,
    readable_folders,
)
from coevolve.environments.appworld.settings import AppWorldConfig
from coevolve.environments.appworld.source import WorldOf
from coevolve.environments.sdk import Sandbox
from coevolve.environments.tools.commands import (
    Act,
    Broken,
    Command,
    Grade,
    Look,
    Looked,
    Passed,
    Ready,
    Release,
    Reply,
    Reset,
    Trial,
    Tried,
    TriedTurn,
    Verdict,
    sendable,
)
from coevolve.environments.tools.task import ToolTask
from protocols.config import SimulatorConfig
from protocols.errors import CoevolveError, SimulatorError

MAX_KNOWN = 10_000
"""References whose end state is remembered."""

Expected = tuple[str, tuple[str, ...]]
"""A world and a reference."""

log = structlog.get_logger()


class AppWorldWorker:
    """Sessions on the tasks of one folder of data."""

    def __init__(
        self, settings: AppWorldConfig, limits: SimulatorConfig, data: Callable[[], Path]
    ) -> None:
        """Start no process yet; ``data`` returns the folder, and makes it if necessary.

        A block may take ``timeout_s`` of ``limits``, and an interpreter ``memory_mb``.
        """
        self._settings = settings
        self._limits = limits
        self._data = data
        self._lock = threading.Lock()
        self._started: tuple[Engine, Sandbox] | None = None
        self._threads = ThreadPoolExecutor(settings.episodes, thread_name_prefix="appworld")
        self._sessions: dict[str, Session] = {}
        self._expected: dict[Expected, Future[State]] = {}
        self._spent_s = 0.0
        self.restarts = 0
        """Sessions that a failure of the machine ended."""

        self.last_error = ""

    async def execute(self, commands: Sequence[Command]) -> Sequence[Reply]:
        """Execute a batch; the commands of each session in order, the sessions side by side."""
        by_session: dict[str, list[int]] = {}
        for index, command in enumerate(commands):
            by_session.setdefault(command.session, []).append(index)
        replies: dict[int, Reply] = {}

        def play(indices: Sequence[int]) -> None:
            for index in indices:
                replies[index] = self._reply(sendable(commands[index]))

        loop = asyncio.get_running_loop()
        await asyncio.gather(
            *(loop.run_in_executor(self._threads, play, each) for each in by_session.values())
        )
        return [replies[index] for index in range(len(commands))]

    def cpu_s(self) -> float:
        """Return the CPU seconds of worlds and interpreters that have ended."""
        return self._spent_s

    async def close(self) -> None:
        """End every process."""
        for name in tuple(self._sessions):
            self._forget(name)
        if self._started:
            self._started[0].close()
        self._threads.shutdown(wait=False)

    def _reply(self, command: Command) -> Reply:
        try:
            return self._answer(command)
        except CoevolveError as error:
            self.restarts += 1
            self.last_error = str(error)
            log.warning("appworld_session_lost", session=command.session, reason=str(error))
            self._forget(command.session)
            return Ready() if isinstance(command, Release) else Broken(reason=str(error))

    def _answer(self, command: Command) -> Reply:
        match command:
            case Reset(session=name, task=task):
                self._forget(name)
                self._sessions[name] = self._open(task)
                return Ready()
            case Act(session=name, text=text):
                return self._session(name).act(text)
            case Grade(session=name):
                return self._verdict(self._session(name))
            case Look(session=name):
                return Looked(state=digest_of(self._session(name).state()))
            case Release(session=name):
                self._forget(name)
                return Ready()
            case Trial():
                return self._tried(command)

    def _session(self, name: str) -> Session:
        if name not in self._sessions:
            raise SimulatorError(f"session {name} is not open")
        return self._sessions[name]

    def _open(self, task: ToolTask) -> Session:
        engine, sandbox = self._running()
        task_id = msgspec.json.decode(task.world, type=WorldOf).task
        if self._settings.source == "own":
            engine.make([task_id])
        return opened(
            engine.open(task_id),
            sandbox,
            task,
            block_s=self._limits.timeout_s,
            memory_mb=self._limits.memory_mb,
        )

    def _running(self) -> tuple[Engine, Sandbox]:
        with self._lock:
            if self._started is None:
                engine = Engine(self._data(), self._settings.engine_memory_mb)
                self._started = engine, Sandbox(readable_folders())
            return self._started

    def _forget(self, name: str) -> None:
        if session := self._sessions.pop(name, None):
            with contextlib.suppress(SimulatorError):
                self._spent_s += session.close()

    def _verdict(self, session: Session) -> Verdict:
        expected = self._end_of(session.task)
        return session.verdict(expected, partial_credit=self._settings.partial_credit)

    def _end_of(self, task: ToolTask) -> State | None:
        """Return the state in which the reference ends; None if there is no reference.

        An attempt that reaches it fails all the same unless it completes the task.
        """
        blocks = tuple(block for turn in task.turns for block in turn.reference)
        if not blocks:
            return None
        key = (task.world, blocks)
        with self._lock:
            if known := self._expected.get(key):
                mine = None
            else:
                if len(self._expected) >= MAX_KNOWN:
                    self._expected.pop(next(iter(self._expected)))
                known = mine = self._expected[key] = Future[State]()
        if mine:
            try:
                mine.set_result(self._carried_out(task, blocks))
            except BaseException as error:  # noqa: BLE001, raised by result()
                with self._lock:
                    self._expected.pop(key, None)
                mine.set_exception(error)
        return known.result()

    def _carried_out(self, task: ToolTask, blocks: Sequence[str]) -> State:
        session = self._open(task)
        try:
            for block in blocks:
                session.act(block)
            return session.state()
        finally:
            self._spent_s += session.close()

    def _tried(self, trial: Trial) -> Tried:
        """Play a trial. The verdict on every turn but the last is that it passes."""
        session = self._open(trial.task)
        try:
            initial = digest_of(session.state())
            turns: list[TriedTurn] = []
            for number, calls in enumerate(trial.turns, 1):
                observed = tuple(session.act(call) for call in calls)
                is_last = number == len(trial.task.turns)
                turns.append(
                    TriedTurn(
                        observed=observed,
                        verdict=self._verdict(session) if is_last else Passed(),
                        state=digest_of(session.state()),
                    )
                )
            return Tried(initial=initial, turns=tuple(turns))
        finally:
            self._spent_s += session.close()
