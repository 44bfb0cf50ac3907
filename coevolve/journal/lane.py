"""The fast lane to the store: a unix-domain socket between processes of one node.

A frame is the size of its body, the number of the call, and the body. Calls overlap, and answers
come in any order. If the store's process dies, the client connects to the next one and repeats
every call that has no answer; the calls' receipts prevent a second execution.

The socket has an abstract name: it has no file, so the kernel removes it with the process, however
that ends. The kernel also tells both ends which user is at the other one; others are turned away.

Back-pressure: a caller waits for its answer. The store reads nothing from a process that does not
fetch its answers, or that has `MAX_CALLS` calls without one.
"""

import asyncio
import os
import socket
import struct
import uuid
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import cast

from protocols.errors import JournalError

MAX_CALLS = 10_000
"""Calls of one process that the store works on at a time; most are blocked in `take` or `wait`."""

SHARED_BYTES = 1 << 16
"""Size of the buffer that receives small frames; a larger one gets a buffer of its own."""

SEND_BYTES = 4 << 20
"""Size of the kernel's buffer of what was sent and not read yet; most systems allow less. A frame
that fits is sent at once."""

RETRY_S = 0.05
TRIES = 100
"""Attempts to connect; one fails if the store's process dies between its start and the attempt."""

_HEADER = struct.Struct("<IQ")
_CREDENTIALS = struct.Struct("3i")

Answering = Callable[[bytes | bytearray], Awaitable[bytes]]


class _Frames(asyncio.BufferedProtocol):
    """Splits what arrives into frames."""

    def __init__(self) -> None:
        self._shared = bytearray(SHARED_BYTES)
        self._filled = 0
        self._large: bytearray | None = None
        self._number = 0

    @abstractmethod
    def frame(self, number: int, body: bytes | bytearray) -> None:
        """Called with each frame, whose body the callee may keep."""

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the transport puts the next bytes."""
        return memoryview(self._shared if self._large is None else self._large)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Pass on the frames that are complete."""
        self._filled += nbytes
        if self._large is None:
            self._split()
        elif self._filled == len(self._large):
            body, self._large, self._filled = self._large, None, 0
            self.frame(self._number, body)

    def _split(self) -> None:
        start, filled = 0, self._filled
        while filled - start >= _HEADER.size:
            size, number = _HEADER.unpack_from(self._shared, start)
            begin = start + _HEADER.size
            if begin + size <= filled:
                start = begin + size
                self.frame(number, bytes(memoryview(self._shared)[begin:start]))
                continue
            if _HEADER.size + size > SHARED_BYTES:
                self._begin_large(number, size, begin)
                return
            break
        self._filled = filled - start
        self._shared[: self._filled] = self._shared[start:filled]

    def _begin_large(self, number: int, size: int, begin: int) -> None:
        """Give the frame whose body begins at ``begin`` a buffer of its own."""
        arrived = self._filled - begin
        self._large = bytearray(size)
        self._large[:arrived] = memoryview(self._shared)[begin : self._filled]
        self._number, self._filled = number, arrived


class _Served(_Frames):
    """The store's end of one connection."""

    def __init__(self, answering: Answering) -> None:
        super().__init__()
        self._answering = answering
        self._transport: asyncio.Transport | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._is_fetched = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Turn other users away."""
        self._transport = cast("asyncio.Transport", transport)
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        if _user_of(connection) != os.getuid():
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop the calls whose answers nobody reads."""
        for call in self._calls:
            call.cancel()

    def frame(self, number: int, body: bytes | bytearray) -> None:
        call = asyncio.get_running_loop().create_task(self._answer(number, body))
        self._calls.add(call)
        call.add_done_callback(self._done)
        self._read_on()

    def pause_writing(self) -> None:
        """Read no more calls while the answers are not fetched."""
        self._is_fetched = False
        self._read_on()

    def resume_writing(self) -> None:
        """Read calls again."""
        self._is_fetched = True
        self._read_on()

    async def _answer(self, number: int, body: bytes | bytearray) -> None:
        answer = await self._answering(body)
        if self._transport is not None:
            self._transport.writelines((_HEADER.pack(len(answer), number), answer))

    def _done(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        self._read_on()

    def _read_on(self) -> None:
        """Read calls, or not."""
        if self._transport is None or self._transport.is_closing():
            return
        wants = self._is_fetched and len(self._calls) < MAX_CALLS
        if wants and not self._transport.is_reading():
            self._transport.resume_reading()
        elif not wants and self._transport.is_reading():
            self._transport.pause_reading()


@dataclass(frozen=True, kw_only=True)
class Serving:
    """A socket that is served for as long as this object and its process live."""

    name: str
    """Abstract name of the socket."""

    server: asyncio.Server


async def serve(answering: Answering) -> Serving:
    """Answer calls of this user's processes on this node."""
    name = f"coevolve-{uuid.uuid4().hex}"
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(lambda: _Served(answering), _path(name))
    return Serving(name=name, server=server)


class _Connection(_Frames):
    """The caller's end of one connection."""

    def __init__(self, lane: "Lane") -> None:
        super().__init__()
        self._lane = lane
        self._transport: asyncio.Transport | None = None
        self.is_writable = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Tell the lane."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_writable = True
        self._lane.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the lane."""
        self.is_writable = False
        self._lane.lost()

    def frame(self, number: int, body: bytes | bytearray) -> None:
        """Pass an answer on."""
        self._lane.answered(number, body)

    def pause_writing(self) -> None:
        """Hold calls back until the store has read some."""
        self.is_writable = False

    def resume_writing(self) -> None:
        """Send what was held back."""
        self.is_writable = True
        self._lane.flush()

    def send(self, number: int, call: bytes) -> None:
        assert self._transport is not None
        self._transport.writelines((_HEADER.pack(len(call), number), call))


class _Open:
    """A call without an answer."""

    def __init__(self, call: bytes, loop: asyncio.AbstractEventLoop) -> None:
        self.call = call
        self.answer: asyncio.Future[bytes | bytearray] = loop.create_future()


class Lane:
    """A caller's access to the store of its node. Use it from one event loop."""

    def __init__(self, find: Callable[[], Awaitable[str]]) -> None:
        """Connect to the socket that ``find`` names.

        ``find`` waits until the store's process is there, and raises JournalError if it does not
        come back.
        """
        self._find = find
        self._connection: _Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._numbers = count()
        self._open: dict[int, _Open] = {}
        self._unsent: deque[int] = deque()

    async def call(self, call: bytes) -> bytes | bytearray:
        number = next(self._numbers)
        opened = self._open[number] = _Open(call, asyncio.get_running_loop())
        self._unsent.append(number)
        try:
            if self._connection is None:
                self._reconnect()
            self.flush()
            return await opened.answer
        finally:
            self._open.pop(number, None)

    def flush(self) -> None:
        """Send calls for as long as the connection takes them."""
        while self._unsent and self._connection is not None and self._connection.is_writable:
            number = self._unsent.popleft()
            if number in self._open:
                self._connection.send(number, self._open[number].call)

    def answered(self, number: int, answer: bytes | bytearray) -> None:
        """Give an answer to its caller, if that still waits."""
        opened = self._open.get(number)
        if opened is not None and not opened.answer.done():
            opened.answer.set_result(answer)

    def connected(self, connection: _Connection) -> None:
        """Send every call that has no answer, in their order."""
        self._connection = connection
        self._unsent = deque(self._open)
        self.flush()

    def lost(self) -> None:
        """Connect again if calls wait for answers."""
        self._connection = None
        if self._open:
            self._reconnect()

    def _reconnect(self) -> None:
        if self._connecting is None or self._connecting.done():
            self._connecting = asyncio.get_running_loop().create_task(self._connect_again())

    async def _connect_again(self) -> None:
        """Connect to the next process of the store; if there is none, refuse all open calls."""
        tries = 0
        while self._connection is None:
            try:
                await self._connect(await self._find())
            except OSError as error:
                tries += 1
                if tries == TRIES:
                    self._refuse(JournalError(f"the store's socket cannot be reached: {error}"))
                    return
                await asyncio.sleep(RETRY_S)
            except Exception as error:  # noqa: BLE001 - the callers handle every kind of error
                self._refuse(error)
                return

    async def _connect(self, name: str) -> None:
        """Connect to this socket. Raises OSError."""
        loop = asyncio.get_running_loop()
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
            # uvloop, which Ray uses if it is installed, takes abstract names only here.
            await loop.sock_connect(connection, _path(name))
            _refuse_another_user(connection)
            await loop.create_unix_connection(lambda: _Connection(self), sock=connection)
        except BaseException:
            connection.close()
            raise

    def _refuse(self, error: Exception) -> None:
        for opened in self._open.values():
            if not opened.answer.done():
                opened.answer.set_exception(error)


def _path(name: str) -> str:
    return f"\0{name}"


def _refuse_another_user(connection: socket.socket) -> None:
    """Raise OSError if another user has taken the name, which is free once a process has died."""
    if (user := _user_of(connection)) != os.getuid():
        raise PermissionError(f"user {user} answers there")


def _user_of(connection: socket.socket) -> int:
    """Return the id of the user at the other end."""
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(packed)
    return user
