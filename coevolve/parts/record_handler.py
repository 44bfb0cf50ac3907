"""A part that answers the records of one kind, one after the other.

Guarantees: one transaction finishes a record and adds its answer, so each record is answered
exactly once even if processes are killed. The part takes its seat before it reads the journal, so a
predecessor cannot add an answer that the part does not see.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from coevolve.journal.codec import topics_of
from coevolve.journal.mailbox import Mailbox
from coevolve.parts.status import StatusReporter
from coevolve.parts.stopping import unless_stopped
from protocols.control import PartStatus
from protocols.interfaces import Store
from protocols.journal import Message

TAKE_LIMIT = 16


class Answerer(Protocol):
    """The work of such a part."""

    async def begin(self) -> None:
        """Read the earlier answers from the journal; forget all other state."""
        ...

    async def answer(self, message: Message) -> Sequence[Message]:
        """Return the messages to write in the transaction that finishes the record."""
        ...


class AnsweringPart:
    """A `protocols.interfaces.Part` that runs an answerer."""

    def __init__(
        self,
        answerer: Answerer,
        standing: StatusReporter,
        *,
        store: Store,
        kind: type[Message],
        awaited: str,
        lease_s: float,
    ) -> None:
        """Answer records of ``kind``; the status shows ``awaited`` while the part waits for one.

        The answerer may also report its work in ``standing``.
        """
        self._answerer = answerer
        self._reporter = standing
        self._store = store
        self._topics = topics_of(kind)
        self._awaited = awaited
        self._lease_s = lease_s
        self._stopping = asyncio.Event()
        self._mailbox: Mailbox | None = None

    async def run(self) -> None:
        """Answer until stopped; all state comes from the journal."""
        await unless_stopped(self._stopping, self._work())

    async def stop(self) -> None:
        """Make ``run`` return; the record in progress stays unfinished."""
        self._stopping.set()

    def status(self) -> PartStatus:
        return self._reporter.report(len(self._mailbox.held) if self._mailbox else 0)

    def cpu_s(self) -> float:
        """Return 0: the part uses no model."""
        return 0.0

    async def _work(self) -> None:
        name = self._reporter.part
        self._mailbox = mailbox = Mailbox(
            self._store, consumer=name, topics=self._topics, member=name, lease_s=self._lease_s
        )
        deliveries = await mailbox.take(TAKE_LIMIT, 0.0)
        await self._answerer.begin()
        while True:
            for sequence, message in deliveries:
                await mailbox.complete((sequence,), await self._answerer.answer(message))
                self._reporter.done += 1
            self._reporter.waits_for(self._awaited)
            deliveries = await mailbox.take(TAKE_LIMIT)
