"""A part that answers the records of one topic, one after the other.

Promises: a record is finished in the same transaction that adds its answer, so each is answered
exactly once whatever is killed; the seat is taken before the journal is read, so no predecessor can
answer something that was not seen.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from coevolve.journal.mailbox import Mailbox
from coevolve.parts.status import StatusReporter
from coevolve.parts.stopping import unless_stopped
from protocols.control import PartStatus
from protocols.interfaces import Store
from protocols.journal import Message

TAKE_LIMIT = 16


class Answerer(Protocol):
    """What such a part does."""

    async def begin(self) -> None:
        """Learn from the journal what was answered before, and forget everything else."""
        ...

    async def answer(self, message: Message) -> Sequence[Message]:
        """Return what is written with the record's end."""
        ...


class AnsweringPart:
    """A `protocols.interfaces.Part` around an answerer."""

    def __init__(
        self,
        answerer: Answerer,
        standing: StatusReporter,
        *,
        store: Store,
        topic: str,
        awaited: str,
        lease_s: float,
    ) -> None:
        """Answer ``topic``; ``awaited`` says in a word what is waited for.

        The answerer may write into the same ``standing`` what it does.
        """
        self._answerer = answerer
        self._reporter = standing
        self._store = store
        self._topic = topic
        self._awaited = awaited
        self._lease_s = lease_s
        self._stopping = asyncio.Event()
        self._mailbox: Mailbox | None = None

    async def run(self) -> None:
        """Answer until stopped; all that is known comes from the journal."""
        await unless_stopped(self._stopping, self._work())

    async def stop(self) -> None:
        """Make ``run`` return; what is in hand stays open."""
        self._stopping.set()

    def status(self) -> PartStatus:
        """Say what the part is doing."""
        return self._reporter.report(len(self._mailbox.held) if self._mailbox else 0)

    def cpu_s(self) -> float:
        """Return 0: no model is asked."""
        return 0.0

    async def _work(self) -> None:
        name = self._reporter.part
        self._mailbox = mailbox = Mailbox(
            self._store, consumer=name, topics=(self._topic,), member=name, lease_s=self._lease_s
        )
        deliveries = await mailbox.take(TAKE_LIMIT, 0.0)
        await self._answerer.begin()
        while True:
            for sequence, message in deliveries:
                await mailbox.complete((sequence,), await self._answerer.answer(message))
                self._reporter.done += 1
                await mailbox.renew()
            self._reporter.waits_for(self._awaited)
            deliveries = await mailbox.take(TAKE_LIMIT)
