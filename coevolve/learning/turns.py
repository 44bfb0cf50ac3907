"""The learner's turns on a device that it shares with engines (``rollout.engine.sleeps``).

The learner computes when every rollout engine has said that it sleeps
(`coevolve.rollouts.turns`), and gives its unused memory back before the engines wake. A learner
that is killed during its turn leaves the engines asleep; the next one recovers, and ends the turn.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import torch

from coevolve.journal.codec import decode_as, topic_of
from coevolve.journal.mailbox import Appender
from coevolve.parts.stopping import unless_stopped
from coevolve.rollouts.turns import open_turn
from protocols.config import RunConfig, VllmEngine
from protocols.errors import LearnerError
from protocols.interfaces import Reader, Store
from protocols.learning import EngineAsleep, StepReport, TurnBegan, TurnEnded

LOOK_S = 5.0
"""Longest wait for an answer before the next look at the clock."""


class LearnerTurns:
    """The learner's turns; without engines that sleep it never waits and records nothing."""

    def __init__(
        self,
        config: RunConfig,
        engines: tuple[str, ...],
        *,
        stopping: asyncio.Event,
        store: Store,
        reader: Reader,
        append: Appender,
    ) -> None:
        """Take turns with these engines, named by their parts, until ``stopping`` is set."""
        engine = config.rollout.engine
        self._sleeps = isinstance(engine, VllmEngine) and engine.sleeps
        self._timeout_s = config.delivery.timeout_s
        self._engines = engines
        self._stopping = stopping
        self._store = store
        self._reader = reader
        self._append = append

    @asynccontextmanager
    async def taken(self, step: int) -> AsyncGenerator[bool]:
        """Have the device while the block computes ``step``.

        Yields False if the run is stopped while engines are still awake; they may never sleep then.
        Raises LearnerError if an engine does not sleep within ``delivery.timeout_s``.
        """
        if not self._sleeps:
            yield True
            return
        try:
            (began,) = await self._append([TurnBegan(step=step)])
            yield await unless_stopped(self._stopping, self._all_asleep(began)) or False
        finally:
            _free_unused_memory()
            await self._append([TurnEnded()])

    @asynccontextmanager
    async def recovering(self) -> AsyncGenerator[None]:
        """Have the device while the block repeats recorded steps, if there are any.

        At the start of a run nothing is repeated, and engines may still be loading.
        """
        if self._sleeps and await self._reader.last(topic_of(StepReport)) is not None:
            async with self.taken(0):
                yield
            return
        yield
        if self._sleeps and await open_turn(self._reader) is not None:
            await self._append([TurnEnded()])

    async def _all_asleep(self, turn: int) -> bool:
        """Return True when every engine has answered the `TurnBegan` with sequence ``turn``."""
        awake, after, topic = set(self._engines), turn, topic_of(EngineAsleep)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s
        while awake:
            left_s = deadline - loop.time()
            if left_s <= 0:
                raise LearnerError(
                    f"the learner's turn needs engines that sleep (rollout.engine.sleeps); "
                    f"{', '.join(sorted(awake))} did not within delivery.timeout_s = "
                    f"{self._timeout_s:g} s. See logs/{min(awake)}.jsonl"
                )
            await self._store.wait((topic,), after, min(left_s, LOOK_S))
            for record in await self._reader.scan(topic, after=after):
                answer = decode_as(record, EngineAsleep)
                after = record.sequence
                if answer.turn == turn:
                    awake.discard(answer.engine)
        return True


def _free_unused_memory() -> None:
    """Give the memory that torch keeps for later back to the GPU."""
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
