"""A server whose clients may send and read as slowly as they like, and keep nobody waiting."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from coevolve.gateway.http import HttpServer, Request, Response

LARGE = b"x" * (64 << 20)


@asynccontextmanager
async def serving(patience_s: float) -> AsyncGenerator[int]:
    async def answer(request: Request) -> Response:
        return Response(200, LARGE if request.path == "/large" else request.body)

    server = HttpServer(answer, lambda status, why: Response(status, why.encode()), patience_s)
    yield await server.start("127.0.0.1")
    server.close()


async def asked(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok")
    found = await reader.read()
    writer.close()
    return found


async def received(reader: asyncio.StreamReader) -> int:
    """Return how many bytes arrive until the connection ends."""
    total = 0
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(1 << 20):
            total += len(chunk)
    return total


async def test_a_slow_sender_and_a_client_that_does_not_read_are_dropped_and_others_answered():
    async with serving(1) as port, asyncio.timeout(60):
        slow, slowly = await asyncio.open_connection("127.0.0.1", port)
        deaf, unread = await asyncio.open_connection("127.0.0.1", port)
        slowly.write(b"POST / HTTP/1.1\r\n")
        unread.write(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b"200" in await asked(port)

        async def drip() -> None:
            while True:
                slowly.write(b"a")
                await asyncio.sleep(0.05)

        dripping = asyncio.ensure_future(drip())
        assert await received(slow) == 0
        dripping.cancel()
        await asyncio.sleep(1.5)
        assert await received(deaf) < len(LARGE)
        assert b"200" in await asked(port)
        slowly.close()
        unread.close()


async def test_connections_are_used_again_and_may_send_ahead():
    async with serving(5) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        one = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\n"
        writer.write(one + b"abc" + one + b"def")
        for word in (b"abc", b"def"):
            assert b"content-length: 3" in await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(3) == word
        writer.close()


def test_an_open_connection_is_no_error_where_the_loop_is_interrupted():
    told: list[object] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        async with serving(5) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nok")
            assert b"200" in await reader.readuntil(b"\r\n\r\n")
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
    assert not told


async def test_a_client_that_asks_before_it_sends_is_told_to_go_on():
    async with serving(5) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n"
        )
        assert b"100" in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"ok")
        assert b"200" in await reader.readuntil(b"\r\n\r\n")
        writer.close()


async def test_the_work_for_a_client_that_hangs_up_ends_and_requests_in_a_row_are_answered() -> (
    None
):
    began, ended = asyncio.Event(), asyncio.Event()

    async def answer(request: Request) -> Response:
        if request.path == "/slow":
            began.set()
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()
        await asyncio.sleep(0.05)
        return Response(200, request.path.encode())

    server = HttpServer(answer, lambda status, why: Response(status, why.encode()))
    port = await server.start("127.0.0.1")
    async with asyncio.timeout(60):
        _, leaving = await asyncio.open_connection("127.0.0.1", port)
        leaving.write(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n")
        await began.wait()
        leaving.close()
        await ended.wait()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for path in (b"/one", b"/two"):
            writer.write(b"GET %s HTTP/1.1\r\nhost: x\r\n\r\n" % path)
            await asyncio.sleep(0.01)
        found = await reader.readuntil(b"/two")
        assert found.index(b"/one") < found.index(b"/two")
        writer.close()
    server.close()
