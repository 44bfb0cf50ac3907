"""An HTTP/1.1 server for programs that nobody vouches for.

h11 reads and writes the protocol. A request has limits: `MAX_HEAD_BYTES`, `MAX_BODY_BYTES`, and
`PATIENCE_S` from its first byte to its last. A client that does not read an answer is dropped after
as long. A request that breaks a limit gets an answer that says so, and its connection ends; others
go on.
"""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import h11

MAX_HEAD_BYTES = 1 << 16
MAX_BODY_BYTES = 64 << 20
PATIENCE_S = 30.0
IDLE_S = 600.0
"""Seconds that an open connection may have no request."""

LINGER_S = 2.0
"""Seconds in which a refused client may go on sending; it may read the answer only afterwards."""

CHUNK_BYTES = 1 << 16
JSON = "application/json"
EVENTS = "text/event-stream"


@dataclass(frozen=True, kw_only=True)
class Request:
    """A whole request."""

    method: str
    path: str
    """Without the query."""

    headers: Mapping[str, str]
    """By name, in lower case; the last of several with one name."""

    body: bytes


@dataclass(frozen=True)
class Response:
    """A whole answer."""

    status: int
    body: bytes
    kind: str = field(default=JSON, kw_only=True)


class RefusedRequestError(Exception):
    """A request that cannot be read."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


Answer = Callable[[Request], Coroutine[Any, Any, Response]]
Refuse = Callable[[int, str], Response]
"""Makes the answer to a request that cannot be read, from its status and a sentence."""


class HttpServer:
    """Answers requests on a free port, each connection in a task of the running loop."""

    def __init__(self, answer: Answer, refuse: Refuse, patience_s: float = PATIENCE_S) -> None:
        self._answer = answer
        self._refuse = refuse
        self._patience_s = patience_s
        self._server: asyncio.Server | None = None

    async def start(self, host: str, listener: socket.socket | None = None) -> int:
        """Listen, by default on a free port of ``host``; return the port. Raises OSError."""
        if listener is None:
            self._server = await asyncio.start_server(self._serve, host, 0)
        else:
            self._server = await asyncio.start_server(self._serve, sock=listener)
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Accept no further connections."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(reader, writer, self._patience_s)
        try:
            with suppress(ConnectionError, h11.LocalProtocolError):
                while await self._exchange(link):
                    pass
        except TimeoutError:
            writer.transport.abort()  # a plain close would wait until the client has read all
        except asyncio.CancelledError:
            pass  # Ctrl-C: of a connection's task, Python 3.11 would print it as an error
        finally:
            writer.close()

    async def _exchange(self, link: "_Link") -> bool:
        """Answer a request; return whether there may be another one."""
        try:
            request = await link.request()
        except RefusedRequestError as error:
            await link.send(self._refuse(error.status, str(error)), ends=True)
            await link.linger()
            return False
        if request is None:
            return False
        response = await link.answered(self._answer(request))
        return response is not None and await link.send(response)


class _Link:
    """One connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience_s: float
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._patience_s = patience_s
        self._protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)

    async def request(self) -> Request | None:
        """Return the next request; None if the client has no further one.

        Raises RefusedRequestError, and TimeoutError.
        """
        async with asyncio.timeout(IDLE_S):
            data = await self._reader.read(CHUNK_BYTES) if self._is_empty() else b""
        try:
            async with asyncio.timeout(self._patience_s):
                return await self._received(data)
        except h11.RemoteProtocolError as error:
            status = error.error_status_hint
            what = f"a head of at most {MAX_HEAD_BYTES} bytes" if status == 431 else "HTTP/1.1"
            raise RefusedRequestError(status, f"a request needs {what}, found {error}") from error

    def _is_empty(self) -> bool:
        return not self._protocol.trailing_data[0]

    async def _received(self, data: bytes) -> Request | None:
        if data:
            self._protocol.receive_data(data)
        elif self._is_empty():
            return None
        head = await self._event()
        if not isinstance(head, h11.Request):
            return None
        # h11 bounds what it holds of an incomplete head only.
        if sum(len(name) + len(value) for name, value in head.headers) > MAX_HEAD_BYTES:
            sentence = f"a request needs a head of at most {MAX_HEAD_BYTES} bytes, found more"
            raise RefusedRequestError(431, sentence)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        if {"content-length", "transfer-encoding"} <= headers.keys():
            sentence = "a request needs a length or chunks, found both"
            raise RefusedRequestError(400, sentence)
        return Request(
            method=head.method.decode("ascii"),
            path=head.target.decode("ascii").partition("?")[0],
            headers=headers,
            body=await self._body(int(headers.get("content-length", 0))),
        )

    async def _body(self, announced: int) -> bytes:
        body = bytearray()
        if self._protocol.they_are_waiting_for_100_continue and announced <= MAX_BODY_BYTES:
            go_on = h11.InformationalResponse(status_code=100, headers=[])
            self._writer.write(self._protocol.send(go_on) or b"")
        while announced <= MAX_BODY_BYTES and len(body) <= MAX_BODY_BYTES:
            event = await self._event()
            if isinstance(event, h11.EndOfMessage):
                return bytes(body)
            if not isinstance(event, h11.Data):
                raise ConnectionError("the client hung up")
            body += event.data
        sentence = f"a body needs at most {MAX_BODY_BYTES} bytes, found more"
        raise RefusedRequestError(413, sentence)

    async def _event(self) -> object:
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            self._protocol.receive_data(await self._reader.read(CHUNK_BYTES))
        return event

    async def answered(self, answering: Coroutine[Any, Any, Response]) -> Response | None:
        """Return the answer; None, and end the work on it, if the client hangs up before."""
        work = asyncio.ensure_future(answering)
        further = asyncio.ensure_future(self._reader.read(CHUNK_BYTES))
        try:
            await asyncio.wait((work, further), return_when=asyncio.FIRST_COMPLETED)
            if further.done():
                if data := further.result():
                    self._protocol.receive_data(data)  # it belongs to the next request
                elif not work.done():
                    return None
            return await work
        finally:
            for each in (work, further):
                each.cancel()
            await asyncio.wait((work, further))

    async def send(self, response: Response, *, ends: bool = False) -> bool:
        """Send an answer; return whether the connection takes another request."""
        headers = [
            ("content-type", response.kind),
            ("content-length", str(len(response.body))),
            *([("connection", "close")] if ends else []),
        ]
        events = (
            h11.Response(status_code=response.status, headers=headers),
            h11.Data(data=response.body),
            h11.EndOfMessage(),
        )
        # One packet: each further one wakes the client once more.
        self._writer.write(b"".join(self._protocol.send(event) or b"" for event in events))
        async with asyncio.timeout(self._patience_s):
            await self._writer.drain()
        if self._protocol.our_state is not h11.DONE or self._protocol.their_state is not h11.DONE:
            return False
        self._protocol.start_next_cycle()
        return True

    async def linger(self) -> None:
        """Read what the client still sends: to hang up at once would take the answer from it."""
        self._writer.write_eof()
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                while await self._reader.read(CHUNK_BYTES):
                    pass
