"""A part's access to the journal: it takes records and finishes them together with their outputs.

One write is in flight at a time, as the journal's receipts require. Writes requested meanwhile are
merged into the next one. Many small completions thus become one call of the store actor, and the
number of calls determines the cost. Each caller gets the sequences of its own outputs. If a merged
write is refused because of one caller's lost lease, the mailbox repeats its parts one by one, so
only that caller gets the error. After any other error the write may have been stored, so it is not
repeated with other receipts: every caller gets the error.

A mailbox keeps what it took for as long as its holder lives: the task that took the seat or the
first records. It renews the leases by itself, however long the holder waits or works. It renews
them from the holder's event loop, so the work goes to another member one lease after the process
ended or was stopped, or after a call blocked the loop; and after the holder's task ended, by
whatever error. An attempt that waits forever in a living holder looks like a slow one and keeps its
lease: each part bounds the time of its own work.
"""

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import structlog

from coevolve.journal.codec import decode, encode
from protocols.errors import JournalError, LeaseLostError, RefusedError
from protocols.interfaces import Store
from protocols.journal import Append, Complete, Message, Receipt, Record, StoredRecord, Take

MAX_WRITE_RECORDS = 256
MAX_WRITE_BYTES = 4 << 20

IDLE_WAIT_S = 30.0
"""Maximum duration of one waiting call of the store; the caller then repeats it."""

RENEWALS_PER_LEASE = 3
"""Number of renewals in the duration of a lease, while the holder takes nothing."""

TAKES_PER_LEASE = 4
"""A waiting take, which renews too, returns this many times per lease: before a renewal is due."""

log = structlog.get_logger()

Appender = Callable[[Sequence[Message]], Awaitable[tuple[int, ...]]]
"""A function that adds messages to the journal; it returns their sequences when they are
durable."""


class Delivery(NamedTuple):
    """A message to process; it is delivered again unless ``sequence`` is completed."""

    sequence: int
    message: Message


class _Write(NamedTuple):
    sequences: tuple[int, ...]
    outputs: tuple[Record, ...]
    due_s: float
    """Latest time to which it may wait for other writes, by the event loop's clock."""

    answer: "asyncio.Future[tuple[int, ...]]"


class Mailbox:
    """One member of one consumer. Use it from one event loop.

    A new mailbox is a new incarnation: it takes over the records of an older mailbox of the same
    member.
    """

    def __init__(
        self,
        store: Store,
        *,
        consumer: str,
        topics: Sequence[str] = (),
        member: str,
        lease_s: float,
        gather_s: float = 0.0,
    ) -> None:
        """Each write waits up to ``gather_s`` seconds to be merged with others."""
        self._store = store
        self.consumer = consumer
        self._topics = tuple(topics)
        self.member = member
        self._lease_s = lease_s
        self._gather_s = gather_s
        self._incarnation = uuid.uuid4().hex
        self._counter = 0
        self._held: set[int] = set()
        self._taking = asyncio.Lock()
        self._renewed_s = 0.0
        """Time of the last call that renews, by the event loop's clock."""

        self._holder: asyncio.Task[Any] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._waiting: list[_Write] = []
        self._queued = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None

    @property
    def held(self) -> frozenset[int]:
        """Sequences that were taken and not completed."""
        return frozenset(self._held)

    def beside(self) -> Appender:
        """Return a function that appends as this member, without a wait for its other writes."""
        lease_s = self._lease_s
        return Mailbox(
            self._store, consumer=self.consumer, member=self.member, lease_s=lease_s
        ).append

    async def take(
        self, limit: int, wait_s: float = IDLE_WAIT_S, at_least: int = 1
    ) -> list[Delivery]:
        """Return ``at_least`` to ``limit`` further messages, oldest first.

        Returns fewer after ``wait_s``, or earlier to renew the leases; the caller then repeats the
        call. Raises LeaseLostError if a newer incarnation has the seat.
        """
        self._note_holder()
        async with self._taking:
            records = await self._call(self._take(self._topics, limit, wait_s, at_least))
            self._held.update(record.sequence for record in records)
            if records:
                self._keep()
            return [Delivery(record.sequence, decode(record)) for record in records]

    async def take_seat(self) -> None:
        """Displace an older mailbox of the same member; call it before state is read.

        What the older one finished is in the journal then, and it can finish no more. Raises
        LeaseLostError if a newer incarnation has the seat.
        """
        self._note_holder()
        if not self._taking.locked():  # a take in progress also takes the seat
            async with self._taking:
                await self._renew()

    async def complete(
        self,
        sequences: Sequence[int],
        outputs: Sequence[Message] = (),
        *,
        gather_s: float | None = None,
    ) -> tuple[int, ...]:
        """Finish ``sequences`` and add ``outputs``, both or neither; return the outputs' sequences.

        ``gather_s`` replaces the mailbox's own delay. Raises LeaseLostError if another member took
        over or finished a sequence; the mailbox then holds none of them.
        """
        return await self._queue_write(tuple(sequences), outputs, gather_s)

    async def flush(self) -> None:
        """Return when all queued writes are executed, also those that nobody waits for any more."""
        if self._writer is not None:
            await self._writer

    async def append(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Add ``messages``, all or none, and return their sequences."""
        return await self._queue_write((), messages)

    def _note_holder(self) -> None:
        if self._holder is None or self._holder.done():
            self._holder = asyncio.current_task()

    def _keep(self) -> None:
        """Let a task renew the leases until the holder has ended."""
        assert self._holder is not None
        if self._keeper is None or self._keeper.done():
            self._keeper = keeper = asyncio.create_task(self._renew_all())
            self._holder.add_done_callback(lambda _: keeper.cancel())

    async def _renew_all(self) -> None:
        """Renew the leases whenever no take has done so; return if the seat is lost."""
        now_s = asyncio.get_running_loop().time
        period_s = self._lease_s / RENEWALS_PER_LEASE
        while True:
            left_s = self._renewed_s + period_s - now_s()
            await asyncio.sleep(max(0.0, left_s) if self._held else period_s)
            async with self._taking:
                if self._held and now_s() >= self._renewed_s + period_s:
                    try:
                        await self._renew()
                    except LeaseLostError:
                        return
                    except JournalError as error:  # the holder's own calls raise it, too
                        log.warning("leases_not_renewed", reason=str(error))

    async def _renew(self) -> None:
        """Renew the leases for another ``lease_s``."""
        await self._call(self._take((), 1, 0.0, 1))

    async def _call(self, request: Take) -> Sequence[StoredRecord]:
        self._renewed_s = asyncio.get_running_loop().time()
        return await self._store.take(request)

    def _take(self, topics: tuple[str, ...], limit: int, wait_s: float, at_least: int) -> Take:
        return Take(
            consumer=self.consumer,
            topics=topics,
            member=self.member,
            incarnation=self._incarnation,
            held=tuple(sorted(self._held)),
            limit=limit,
            lease_s=self._lease_s,
            wait_s=min(wait_s, self._lease_s / TAKES_PER_LEASE),
            at_least=at_least,
        )

    async def _queue_write(
        self,
        sequences: tuple[int, ...],
        outputs: Sequence[Message],
        gather_s: float | None = None,
    ) -> tuple[int, ...]:
        """Queue a write and wait for it; cancelling the wait does not cancel the write."""
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
            await self._execute(self._next_writes())

    async def _gather(self) -> None:
        """Wait until one of the queued writes is due."""
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

    async def _execute(self, writes: list[_Write]) -> None:
        """Execute ``writes`` and set each future to its sequences or to the store's error."""
        try:
            await self._write(writes)
        except RefusedError as error:
            if len(writes) > 1:
                for write in writes:
                    await self._execute([write])
                return
            if isinstance(error, LeaseLostError):
                self._held.difference_update(writes[0].sequences)
            _refuse(writes, error)
        except Exception as error:  # noqa: BLE001 - the callers handle every kind of error
            _refuse(writes, error)

    async def _write(self, writes: list[_Write]) -> None:
        """Execute ``writes`` as one call and give each its part of the answer."""
        self._counter += 1
        receipt = Receipt(producer=self._incarnation, counter=self._counter)
        finished = tuple(sequence for write in writes for sequence in write.sequences)
        outputs = tuple(record for write in writes for record in write.outputs)
        if finished:
            added = await self._store.complete(
                Complete(
                    consumer=self.consumer,
                    member=self.member,
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


async def hand_back(store: Store, *, consumer: str, member: str) -> None:
    """Free the records of a member that has ended, so that others can take them at once.

    A process of this member that still runs can finish none of them.
    """
    successor = Mailbox(store, consumer=consumer, member=member, lease_s=IDLE_WAIT_S)
    await successor.take_seat()


def _refuse(writes: Sequence[_Write], error: Exception) -> None:
    for write in writes:
        if not write.answer.done():
            write.answer.set_exception(error)
