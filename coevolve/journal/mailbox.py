"""A part's end of the journal: take work, finish it together with what came of it.

One write is in flight at a time, as the journal's receipts demand. What is asked for meanwhile
forms the next write: many small completions become one call of the store actor, whose price is the
call. Each caller gets its own outputs' sequences back. Where a merged write is refused because of
one caller's lost lease, its members are repeated one by one, so only that caller hears of it.
"""

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from coevolve.journal.codec import decode, encode
from protocols.errors import JournalError, LeaseLostError
from protocols.interfaces import Store
from protocols.journal import Append, Complete, Message, Receipt, Record, Take

MAX_WRITE_RECORDS = 256
MAX_WRITE_BYTES = 4 << 20

IDLE_WAIT_S = 30.0
"""How long one call of the store waits for news; who gets none asks again."""

GATHER_S = 0.5
"""How long a write that nobody waits for waits for others, so that one call carries several."""

RENEWALS_PER_LEASE = 3
"""A waiting take comes back so often that its lease cannot run out."""


Appender = Callable[[Sequence[Message]], Awaitable[tuple[int, ...]]]
"""Adds messages to the journal; returns their sequences when they are durable."""


class Delivery(NamedTuple):
    """A message to work on; it is delivered again unless ``sequence`` is completed."""

    sequence: int
    message: Message


class _Write(NamedTuple):
    sequences: tuple[int, ...]
    outputs: tuple[Record, ...]
    due_s: float
    """Until when it may wait for others, by the event loop's clock."""

    answer: "asyncio.Future[tuple[int, ...]]"


class Mailbox:
    """One member of one consumer. Use it from one event loop.

    A new mailbox is a new incarnation: it takes over what an older one of the same member held.
    """

    def __init__(
        self,
        store: Store,
        *,
        consumer: str,
        topics: Sequence[str],
        member: str,
        lease_s: float,
        gather_s: float = 0.0,
    ) -> None:
        """Take a seat. A write waits up to ``gather_s`` seconds for others to travel with."""
        self._store = store
        self._consumer = consumer
        self._topics = tuple(topics)
        self._member = member
        self._lease_s = lease_s
        self._gather_s = gather_s
        self._incarnation = uuid.uuid4().hex
        self._counter = 0
        self._held: set[int] = set()
        self._taking = asyncio.Lock()
        self._waiting: list[_Write] = []
        self._queued = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None

    @property
    def held(self) -> frozenset[int]:
        """Sequences taken and not yet completed."""
        return frozenset(self._held)

    async def take(
        self, limit: int, wait_s: float = IDLE_WAIT_S, at_least: int = 1
    ) -> list[Delivery]:
        """Return ``at_least`` to ``limit`` further messages, oldest first.

        Returns fewer after ``wait_s``, or earlier, in time to renew the leases: ask again. Raises
        LeaseLostError where a newer incarnation has the seat.
        """
        async with self._taking:
            records = await self._store.take(self._take(self._topics, limit, wait_s, at_least))
            self._held.update(record.sequence for record in records)
            return [Delivery(record.sequence, decode(record)) for record in records]

    async def renew(self) -> None:
        """Keep what is held for another ``lease_s``; only needed by who does not take."""
        if not self._taking.locked():  # a take that is under way renews, too
            async with self._taking:
                await self._store.take(self._take((), 1, 0.0, 1))

    async def complete(
        self,
        sequences: Sequence[int],
        outputs: Sequence[Message] = (),
        *,
        gather_s: float | None = None,
    ) -> tuple[int, ...]:
        """Finish ``sequences`` and add ``outputs``, both or neither; return their sequences.

        ``gather_s`` replaces the mailbox's own; what waits by then travels with it. Raises
        LeaseLostError where a sequence was taken over or finished by another; the mailbox then
        holds none of them any more.
        """
        return await self._written(tuple(sequences), outputs, gather_s)

    async def append(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Add ``messages``, all or none, and return their sequences."""
        return await self._written((), messages)

    def _take(self, topics: tuple[str, ...], limit: int, wait_s: float, at_least: int) -> Take:
        return Take(
            consumer=self._consumer,
            topics=topics,
            member=self._member,
            incarnation=self._incarnation,
            held=tuple(sorted(self._held)),
            limit=limit,
            lease_s=self._lease_s,
            wait_s=min(wait_s, self._lease_s / RENEWALS_PER_LEASE),
            at_least=at_least,
        )

    async def _written(
        self,
        sequences: tuple[int, ...],
        outputs: Sequence[Message],
        gather_s: float | None = None,
    ) -> tuple[int, ...]:
        """Queue a write and wait for it; whoever stops waiting does not stop the write."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[int, ...]] = loop.create_future()
        due_s = loop.time() + (self._gather_s if gather_s is None else gather_s)
        self._waiting.append(_Write(sequences, tuple(map(encode, outputs)), due_s, answer))
        self._queued.set()
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_all())
        return await answer

    async def _write_all(self) -> None:
        while self._waiting:
            await self._gather()
            await self._carry_out(self._next_writes())

    async def _gather(self) -> None:
        """Wait until a write is due."""
        now_s = asyncio.get_running_loop().time
        while (left_s := min(write.due_s for write in self._waiting) - now_s()) > 0:
            self._queued.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._queued.wait()

    def _next_writes(self) -> list[_Write]:
        writes: list[_Write] = []
        records = size_bytes = 0
        while self._waiting and records < MAX_WRITE_RECORDS and size_bytes < MAX_WRITE_BYTES:
            write = self._waiting.pop(0)
            writes.append(write)
            records += 1 + len(write.outputs)
            size_bytes += sum(len(record.body) for record in write.outputs)
        return writes

    async def _carry_out(self, writes: list[_Write]) -> None:
        """Answer ``writes``: with what the store says, or with what it raises."""
        try:
            await self._write(writes)
        except JournalError as error:
            if len(writes) > 1:
                for write in writes:
                    await self._carry_out([write])
                return
            if isinstance(error, LeaseLostError):
                self._held.difference_update(writes[0].sequences)
            _refuse(writes, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the callers' to act on
            _refuse(writes, error)

    async def _write(self, writes: list[_Write]) -> None:
        """Carry out ``writes`` as one and give each its part of the answer."""
        self._counter += 1
        receipt = Receipt(producer=self._incarnation, counter=self._counter)
        finished = tuple(sequence for write in writes for sequence in write.sequences)
        outputs = tuple(record for write in writes for record in write.outputs)
        if finished:
            added = await self._store.complete(
                Complete(
                    consumer=self._consumer,
                    member=self._member,
                    incarnation=self._incarnation,
                    sequences=finished,
                    outputs=outputs,
                    receipt=receipt,
                )
            )
        else:
            added = await self._store.append(Append(records=outputs, receipt=receipt))
        self._held.difference_update(finished)
        start = 0
        for write in writes:
            end = start + len(write.outputs)
            if not write.answer.done():
                write.answer.set_result(tuple(added[start:end]))
            start = end


def _refuse(writes: Sequence[_Write], error: Exception) -> None:
    for write in writes:
        if not write.answer.done():
            write.answer.set_exception(error)
