"""The learner's turns on a device that it shares with engines (``rollout.engine.sleeps``).

The learner computes when every rollout engine has said that it sleeps
(`coevolve.rollouts.turns`), and gives its unused memory back before the engines wake. A learner
that is killed during its turn leaves the engines asleep; the next one recovers, and ends the turn.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import torch

from coevolve.journal.codec import decode_as, topic_of, topics_of
from coevolve.journal.mailbox import Appender
from coevolve.parts.context import PartContext
from coevolve.parts.stopping import unless_stopped
from coevolve.rollouts.turns import open_turn
from protocols.config import VllmEngine
from protocols.control import RolloutScaled
from protocols.errors import LearnerError
from protocols.learning import EngineAsleep, StepReport, TurnBegan, TurnEnded

TOPICS = topics_of(EngineAsleep, RolloutScaled)
"""What may end the learner's wait for its turn."""

LOOK_S = 5.0
"""Longest wait for an answer before the next look at the clock."""


class LearnerTurns:
    """The learner's turns; without engines that sleep it never waits and records nothing."""

    def __init__(self, context: PartContext, stopping: asyncio.Event, append: Appender) -> None:
        """Take turns with the run's rollout engines until ``stopping`` is set."""
        engine = context.config.rollout.engine
        self._sleeps = isinstance(engine, VllmEngine) and engine.sleeps
        self._timeout_s = context.config.delivery.timeout_s
        self._stopping = stopping
        self._store = context.store
        self._reader = context.reader
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
        asleep: set[str] = set()
        known = read = turn
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s
        while awake := await self._engines() - asleep:
            left_s = deadline - loop.time()
            if left_s <= 0:
                raise LearnerError(
                    f"the learner's turn needs engines that sleep (rollout.engine.sleeps); "
                    f"{', '.join(sorted(awake))} did not within delivery.timeout_s = "
                    f"{self._timeout_s:g} s. See logs/{min(awake)}.jsonl"
                )
            known = await self._store.wait(TOPICS, known, min(left_s, LOOK_S))
            for record in await self._reader.scan(topic_of(EngineAsleep), after=read):
                answer = decode_as(record, EngineAsleep)
                read = record.sequence
                if answer.turn == turn:
                    asleep.add(answer.engine)
        return True

    async def _engines(self) -> set[str]:
        """Return the rollout engines that the run has now."""
        scaled = await self._reader.last(topic_of(RolloutScaled))
        return set(decode_as(scaled, RolloutScaled).engines) if scaled else set()


def _free_unused_memory() -> None:
    """Give the memory that torch keeps for later back to the GPU."""
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
