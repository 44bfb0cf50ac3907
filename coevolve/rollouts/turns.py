"""Engines that take turns with the learner on one device (``rollout.engine.sleeps``).

The learner records that its turn begins (`coevolve.learning.turns`). Each engine then sleeps, and
records it; requests in flight wait inside the engine, and nothing is aborted. When the learner's
turn has ended, the engine wakes, and its requests continue. Weights do not change during its sleep:
a version that is published meanwhile is served afterwards. The journal says whose turn it is, so a
process that was killed finds out when it starts again.

Not covered: an engine that starts while the learner computes takes its memory at once.
"""

import asyncio
from typing import Protocol, runtime_checkable

from coevolve.journal.codec import topic_of, topics_of
from coevolve.journal.mailbox import IDLE_WAIT_S
from coevolve.parts.context import PartContext
from protocols.config import VllmEngine
from protocols.interfaces import Generator, Reader
from protocols.learning import EngineAsleep, TurnBegan, TurnEnded

TOPICS = topics_of(TurnBegan, TurnEnded)


@runtime_checkable
class SleepingEngine(Protocol):
    """An engine that can free its device."""

    async def sleep(self) -> None:
        """Free the device; requests in flight wait. Raises GeneratorError."""
        ...

    async def wake(self) -> None:
        """Take the device again; requests in flight continue. Raises GeneratorError."""
        ...


async def open_turn(reader: Reader) -> int | None:
    """Return the sequence of the `TurnBegan` of the learner's turn; None if engines may compute."""
    began, ended = [await reader.last(topic) for topic in TOPICS]
    if began is None or (ended is not None and ended.sequence > began.sequence):
        return None
    return began.sequence


class EngineTurns:
    """Lets one engine sleep while it is the learner's turn."""

    def __init__(self, context: PartContext, name: str, engine: SleepingEngine) -> None:
        """Follow the turns for the engine of the part ``name``."""
        self._name = name
        self._engine = engine
        self._store = context.store
        self._reader = context.reader
        self._append = context.appender("turns", name)

    async def run(self, device: asyncio.Lock) -> None:
        """Follow the turns until cancelled; ``device`` is locked during a sleep.

        Raises GeneratorError if the engine failed.
        """
        known = 0
        while True:
            known = max(known, await self._store.wait((topic_of(TurnBegan),), known, IDLE_WAIT_S))
            if await open_turn(self._reader) is not None:
                async with device:
                    await self._engine.sleep()
                    await self._sleep_out()
                    await self._engine.wake()

    async def _sleep_out(self) -> None:
        """Answer each turn that begins; return when none is open."""
        answered = 0
        while (turn := await open_turn(self._reader)) is not None:
            if turn != answered:
                await self._append([EngineAsleep(engine=self._name, turn=turn)])
                answered = turn
            await self._store.wait(TOPICS, turn, IDLE_WAIT_S)


def engine_turns(context: PartContext, name: str, engine: Generator) -> EngineTurns | None:
    """Return what lets the engine of the part ``name`` sleep; None if it never does."""
    settings = context.config.rollout.engine
    if not (isinstance(settings, VllmEngine) and settings.sleeps):
        return None
    assert isinstance(engine, SleepingEngine)
    return EngineTurns(context, name, engine)
