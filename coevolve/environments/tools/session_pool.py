"""The simulator pool: it spreads sessions over workers and sends commands in batches.

A session stays with the worker that opened it. While a worker is busy with one batch, new commands
for it gather and form the next batch. So back-pressure decides the size of a batch, not a timer: at
low load a command does not wait, and at high load many commands share the price of a remote call.
A pool can also wait a little for further commands, but only while some session could send one.
Opening and removing a session wait for no reply; these commands travel with the next command that
does.

A new session goes to the worker with the fewest open sessions. If all commands of a worker's last
batches were broken, the worker counts as having more sessions, twice as many for each such batch in
a row. So an empty, dead worker does not attract all sessions, but is still tried from time to time.
"""

import asyncio
import contextlib
import time
from collections.abc import Sequence

from coevolve.environments.tools.commands import (
    MAX_WORDS_CHARS,
    Act,
    Broken,
    Command,
    Failed,
    Grade,
    Look,
    Looked,
    Observed,
    Passed,
    Release,
    Reply,
    Reset,
    Trial,
    Tried,
    Verdict,
)
from coevolve.environments.tools.interfaces import SimulatorWorker
from coevolve.environments.tools.task import ToolTask
from protocols.errors import SimulatorError

MAX_BATCH = 256
MAX_REST_S = 0.015
MAX_PENALTY = 2**10


class SimulatorPool:
    """A `coevolve.environments.tools.interfaces.Simulator` over a few `SimulatorWorker`s."""

    def __init__(
        self,
        workers: Sequence[SimulatorWorker],
        max_batch: int = MAX_BATCH,
        *,
        gather_s: float = 0.0,
    ) -> None:
        """Use ``workers``. A batch waits at most ``gather_s`` seconds for further commands."""
        if not workers:
            raise ValueError("a simulator pool needs at least one worker")
        self._lanes = [_Lane(worker, max_batch, gather_s) for worker in workers]
        self._lane_of: dict[str, _Lane] = {}

    async def reset(self, session: str, task: ToolTask) -> None:
        """Open a session with a new world; the session's first command reports a failure."""
        lane = self._lane_of.get(session)
        if lane is None:
            lane = min(self._lanes, key=_Lane.load)
            self._lane_of[session] = lane
            lane.open()
        lane.tell(Reset(session=session, task=task))

    async def act(self, session: str, text: str) -> Observed:
        """Execute one call. Raises SimulatorError."""
        reply = await self._ask(self._lane(session), Act(session=session, text=text))
        if not isinstance(reply, Observed):
            raise _unexpected_reply(reply)
        return reply

    async def grade(self, session: str, words: str = "") -> Verdict:
        """End the turn and compare it with the reference. Raises SimulatorError."""
        command = Grade(session=session, words=words[-MAX_WORDS_CHARS:])
        reply = await self._ask(self._lane(session), command)
        if not isinstance(reply, Passed | Failed):
            raise _unexpected_reply(reply)
        return reply

    async def look(self, session: str) -> str:
        """Return the digest of the session's state. Raises SimulatorError."""
        reply = await self._ask(self._lane(session), Look(session=session))
        if not isinstance(reply, Looked):
            raise _unexpected_reply(reply)
        return reply.state

    async def release(self, session: str) -> None:
        lane = self._lane_of.get(session)
        if lane is not None:
            self._unpin(session)
            lane.tell(Release(session=session))

    async def trial(
        self, name: str, task: ToolTask, turns: Sequence[Sequence[str]], words: str = ""
    ) -> Tried:
        """Play calls, and end with words, in a separate world, on any worker.

        Raises SimulatorError.
        """
        lane = min(self._lanes, key=_Lane.load)
        lane.open()
        try:
            played = tuple(map(tuple, turns))
            reply = await lane.ask(Trial(session=name, task=task, turns=played, words=words))
        finally:
            lane.close()
        if isinstance(reply, Broken):
            raise SimulatorError(reply.reason)
        if not isinstance(reply, Tried):
            raise _unexpected_reply(reply)
        return reply

    def _lane(self, session: str) -> "_Lane":
        lane = self._lane_of.get(session)
        if lane is None:
            raise SimulatorError(f"session {session} is not open")
        return lane

    async def _ask(self, lane: "_Lane", command: Act | Grade | Look) -> Reply:
        reply = await lane.ask(command)
        if isinstance(reply, Broken):
            self._unpin(command.session)
            raise SimulatorError(reply.reason)
        return reply

    def _unpin(self, session: str) -> None:
        lane = self._lane_of.pop(session, None)
        if lane is not None:
            lane.close()


class _Lane:
    """One worker and its queue of commands."""

    def __init__(self, worker: SimulatorWorker, max_batch: int, gather_s: float) -> None:
        self._worker = worker
        self._max_batch = max_batch
        self._gather_s = gather_s
        self._waiting: list[tuple[Command, asyncio.Future[Reply] | None]] = []
        self._asked = 0
        """Number of queued commands of sessions for which a caller waits."""

        self._all_wait = asyncio.Event()
        self._draining: asyncio.Task[None] | None = None
        self._penalty = 0
        self._sessions = 0
        """Open sessions. A trial counts as one that never waits, because others may always come."""

    def load(self) -> int:
        """Return the worker's number of sessions, plus a penalty for broken batches."""
        return self._sessions + self._penalty

    def open(self) -> None:
        """Add a session."""
        self._sessions += 1
        self._look()

    def close(self) -> None:
        """Remove a session."""
        self._sessions -= 1
        self._look()

    def tell(self, command: Reset | Release) -> None:
        """Queue ``command`` before the next asked one; no caller waits for its reply."""
        self._waiting.append((command, None))

    async def ask(self, command: Act | Grade | Look | Trial) -> Reply:
        """Send ``command`` with the next batch and return its reply."""
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, reply))
        self._asked += isinstance(command, Act | Grade | Look)
        self._look()
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())
        return await reply

    def _look(self) -> None:
        """Record whether a further command can come before a waiting one is answered."""
        if self._asked >= self._sessions:
            self._all_wait.set()
        else:
            self._all_wait.clear()

    async def _drain(self) -> None:
        rest_s = 0.0
        try:
            while any(waiting is not None for _, waiting in self._waiting):
                await self._gather(max(self._gather_s, rest_s))
                started = time.monotonic()
                batch = self._waiting[: self._max_batch]
                del self._waiting[: self._max_batch]
                self._asked -= sum(isinstance(command, Act | Grade | Look) for command, _ in batch)
                self._look()
                self._deliver(batch, await self._execute([command for command, _ in batch]))
                # If others asked meanwhile, waiting as long again halves the number of calls.
                rest_s = min(MAX_REST_S, time.monotonic() - started)
        finally:
            self._draining = None

    async def _gather(self, wait_s: float) -> None:
        await asyncio.sleep(0)  # callers that were answered together can ask together
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._all_wait.wait()

    async def _execute(self, commands: list[Command]) -> Sequence[Reply]:
        """Return one reply per command, even if the worker fails."""
        try:
            replies = await self._worker.execute(commands)
        except Exception as error:  # noqa: BLE001 -- a worker must not raise; if it does, no caller hangs
            replies = [Broken(reason=f"the simulator worker raised {error!r}")] * len(commands)
        if len(replies) != len(commands):
            reason = f"the worker sent {len(replies)} replies to {len(commands)} commands"
            replies = [Broken(reason=reason)] * len(commands)
        return replies

    def _deliver(
        self, batch: list[tuple[Command, asyncio.Future[Reply] | None]], replies: Sequence[Reply]
    ) -> None:
        telling = [
            isinstance(reply, Broken)
            for (command, _), reply in zip(batch, replies, strict=True)
            if not isinstance(command, Release)
        ]
        if telling:
            self._penalty = min(MAX_PENALTY, max(8, 2 * self._penalty)) if all(telling) else 0
        for (_, waiting), reply in zip(batch, replies, strict=True):
            if waiting is not None and not waiting.done():  # the caller may have been cancelled
                waiting.set_result(reply)


def _unexpected_reply(reply: Reply) -> SimulatorError:
    return SimulatorError(f"the simulator worker sent an unexpected reply: {reply!r}")
