"""The journal as parts see it: proxies for the store's actor.

A process on the store's node calls it through a socket (`coevolve.journal.lane`), and a process on
another node through Ray; both carry the same bytes. While the actor restarts, calls in flight are
repeated; their receipts prevent a second execution.
"""

import asyncio
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
from ray import ObjectRef
from ray.exceptions import ActorDiedError

from actors.node import node_id
from coevolve.journal.lane import Lane
from protocols import errors
from protocols.errors import JournalError
from protocols.journal import Append, Complete, JournalStatistics, StoredRecord, Take
from protocols.store_calls import (
    Answer,
    Call,
    Copied,
    Copy,
    Count,
    Find,
    Last,
    Newest,
    Read,
    Records,
    Refused,
    Scan,
    Sequences,
    SocketAddress,
    Wait,
)

STORE_NAME = "store"
"""The actor's name in the run's Ray namespace, by which ``attach`` finds it."""

CACHE_BYTES = 64 << 20
"""Bodies that a reader keeps."""

Kind = TypeVar("Kind", Sequences, Newest, Copied, Records, JournalStatistics)
Returned = TypeVar("Returned")

_ENCODER = msgspec.msgpack.Encoder()
_ANSWER: "msgspec.msgpack.Decoder[Answer]" = msgspec.msgpack.Decoder(Answer)


class Line(Protocol):
    """A way to the store's process."""

    async def call(self, call: bytes) -> bytes | bytearray:
        """Return the answer. Raises JournalError if the store's process does not start."""
        ...


Connect = Callable[[Any], Awaitable[Line]]
"""Returns a line to the store's actor."""


class RayLine:
    """Ray's calls of the store's actor."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def call(self, call: bytes) -> bytes:
        return await _answer(self._actor.call.remote(call))

    async def socket(self) -> SocketAddress:
        """Return the socket of the store's current process, which may have to start first."""
        return await _answer(self._actor.socket.remote())


async def ray_line(actor: Any) -> Line:
    """Return the line that works from every node."""
    return RayLine(actor)


async def fastest_line(actor: Any) -> Line:
    """Return the socket's line for the same user on the store's node, and Ray's elsewhere."""
    line = RayLine(actor)
    address = await line.socket()
    if (address.node, address.user) != (node_id(), os.getuid()):
        return line

    async def find() -> str:
        return (await line.socket()).name

    return Lane(find)


class RemoteStore:
    """The callers' proxy: a ``protocols.interfaces.Store``."""

    def __init__(self, actor: Any, connect: Connect = fastest_line) -> None:
        """Connect at the first call; each process and each event loop does so for itself."""
        self._actor = actor
        self._connect = connect
        self._loop: asyncio.AbstractEventLoop | None = None
        self._line: Line | None = None
        self._choosing = asyncio.Lock()

    def __reduce__(self) -> tuple[type["RemoteStore"], tuple[Any, Connect]]:
        """Return what another process needs: not the connection."""
        return RemoteStore, (self._actor, self._connect)

    def reader(self) -> "RemoteReader":
        """Return read access for nodes other than the store's."""
        return RemoteReader(self)

    async def append(self, request: Append) -> tuple[int, ...]:
        return (await self.call(request, Sequences)).sequences

    async def take(self, request: Take) -> Sequence[StoredRecord]:
        return (await self.call(request, Records)).records

    async def complete(self, request: Complete) -> tuple[int, ...]:
        return (await self.call(request, Sequences)).sequences

    async def wait(self, topics: Sequence[str], after: int, wait_s: float) -> int:
        call = Wait(topics=tuple(topics), after=after, wait_s=wait_s)
        return (await self.call(call, Newest)).sequence

    async def checkpoint(self, path: Path) -> None:
        await self.call(Copy(path=str(path)), Copied)

    async def statistics(self) -> JournalStatistics:
        return await self.call(Count(), JournalStatistics)

    async def call(self, call: Call, kind: type[Kind]) -> Kind:
        """Return the answer, which is of this kind. Raises the error with which it was refused."""
        line = await self._connected()
        answer = _ANSWER.decode(await line.call(_ENCODER.encode(call)))
        if isinstance(answer, Refused):
            raise getattr(errors, answer.error)(answer.message)
        assert isinstance(answer, kind)
        return answer

    async def _connected(self) -> Line:
        """Return this event loop's line to the store."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._line, self._choosing = loop, None, asyncio.Lock()
        if self._line is None:
            async with self._choosing:
                self._line = self._line or await self._connect(self._actor)
        return self._line


class RemoteReader:
    """A ``protocols.interfaces.Reader`` for machines other than the store's.

    Records never change, so those that `read` returned last are kept here. A kept record is
    returned even if retention has deleted it since.
    """

    def __init__(self, store: RemoteStore) -> None:
        self._store = store
        self._kept = _Kept()

    def __reduce__(self) -> tuple[type["RemoteReader"], tuple[RemoteStore]]:
        """Return what another process needs: not the records."""
        return RemoteReader, (self._store,)

    async def read(self, sequences: Sequence[int]) -> Sequence[StoredRecord]:
        found = {sequence: self._kept.get(sequence) for sequence in sequences}
        missing = tuple(sequence for sequence, record in found.items() if record is None)
        while missing:
            page = (await self._store.call(Read(sequences=missing), Records)).records
            for record in page:
                found[record.sequence] = record
                self._kept.add(record)
            missing = missing[len(page) :]
        return [record for sequence in sequences if (record := found[sequence]) is not None]

    async def scan(self, topic: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        return await self._pages(
            limit, after, lambda after, limit: Scan(topic=topic, after=after, limit=limit)
        )

    async def last(self, topic: str) -> StoredRecord | None:
        records = (await self._store.call(Last(topic=topic), Records)).records
        return records[0] if records else None

    async def find(self, index: str, key: str, limit: int = 1000) -> Sequence[StoredRecord]:
        return await self._pages(
            limit, 0, lambda after, limit: Find(index=index, key=key, after=after, limit=limit)
        )

    async def _pages(
        self, limit: int, after: int, call: Callable[[int, int], Scan | Find]
    ) -> list[StoredRecord]:
        """Return the records of all pages; ``call`` asks for one, after a sequence."""
        records: list[StoredRecord] = []
        more = True
        while more:
            page = await self._store.call(call(after, limit - len(records)), Records)
            records.extend(page.records)
            after, more = records[-1].sequence if records else after, page.more
        return records


class _Kept:
    """The records that were used last, by sequence, within `CACHE_BYTES`."""

    def __init__(self) -> None:
        self._records: OrderedDict[int, StoredRecord] = OrderedDict()
        self._bytes = 0

    def get(self, sequence: int) -> StoredRecord | None:
        if sequence in self._records:
            self._records.move_to_end(sequence)
        return self._records.get(sequence)

    def add(self, record: StoredRecord) -> None:
        if record.sequence in self._records:
            return
        self._records[record.sequence] = record
        self._bytes += len(record.body)
        while self._bytes > CACHE_BYTES:
            _, dropped = self._records.popitem(last=False)
            self._bytes -= len(dropped.body)


async def _answer(call: "ObjectRef[Returned]") -> Returned:
    """Return what the actor returned; raise JournalError if the actor is dead."""
    try:
        return await call
    except ActorDiedError as error:
        *_, reason = str(error).strip().splitlines()
        raise JournalError(f"the store's process does not start: {reason}") from None
