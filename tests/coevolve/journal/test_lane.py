import asyncio
import os
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from coevolve.journal.lane import MAX_CALLS, SHARED_BYTES, Lane, serve
from protocols.errors import JournalError

WAIT_S = 20.0
HEADER = struct.Struct("<IQ")

SERVING = """
import asyncio
from coevolve.journal.lane import serve

async def answer(call):
    if call == b"never":
        await asyncio.Event().wait()
    return call

async def main():
    serving = await serve(answer)
    print(serving.name, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""

OTHER_USER = """
import os, socket, sys
os.setuid(65534)
connection = socket.socket(socket.AF_UNIX)
connection.connect("\\0" + sys.argv[1])
connection.settimeout(20)
try:
    print(connection.recv(1))
except ConnectionResetError:
    print(b"")
"""


IMPOSTOR = """
import os, socket, sys
os.setuid(65534)
listening = socket.socket(socket.AF_UNIX)
name = f"coevolve-{os.urandom(16).hex()}"
listening.bind("\\0" + name)
listening.listen()
print(name, flush=True)
connection, _ = listening.accept()
print(connection.recv(1))
"""


async def sized(call: bytes | bytearray) -> bytes:
    """Return an answer whose size the call names, in decimal digits."""
    return b"x" * int(call)


async def repeated(call: bytes | bytearray) -> bytes:
    return bytes(call)


class Processes:
    """Real processes that answer, one at a time; a killed one is replaced when it is looked for."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._name = ""
        self.started = 0

    async def find(self) -> str:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", SERVING, stdout=subprocess.PIPE
            )
            assert self._process.stdout is not None
            self._name = (await self._process.stdout.readline()).decode().strip()
            self.started += 1
        return self._name

    async def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            await self._process.wait()
        self._process = None


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    found = Processes()
    yield found
    await found.kill()


async def test_calls_of_every_size_are_answered_whatever_their_order() -> None:
    serving = await serve(repeated)
    lane = Lane(lambda: asyncio.sleep(0, serving.name))
    sizes = [0, 1, 7, SHARED_BYTES - 13, SHARED_BYTES - 12, SHARED_BYTES, 3_000_000, 0, 2]
    calls = [bytes([n % 256]) * size for n, size in enumerate(sizes * 3)]
    async with asyncio.timeout(WAIT_S):
        assert await asyncio.gather(*map(lane.call, calls)) == calls


async def test_frames_may_arrive_in_pieces() -> None:
    serving = await serve(repeated)
    reader, writer = await asyncio.open_unix_connection(f"\0{serving.name}")
    bodies = [b"a", b"", b"b" * (SHARED_BYTES + 5), b"c"]
    sent = b"".join(HEADER.pack(len(body), n) + body for n, body in enumerate(bodies))
    for start, end in ((0, 5), (5, 20), (20, 40), (40, 60_000), (60_000, len(sent))):
        writer.write(sent[start:end])
        await asyncio.sleep(0.01)
    found: dict[int, bytes] = {}
    for _ in bodies:
        size, number = HEADER.unpack(await reader.readexactly(HEADER.size))
        found[number] = await reader.readexactly(size)
    assert found == dict(enumerate(bodies))
    writer.close()


async def test_calls_in_flight_are_repeated_by_the_next_process(processes: Processes) -> None:
    lane = Lane(processes.find)
    async with asyncio.timeout(WAIT_S):
        assert await lane.call(b"first") == b"first"
        waiting = asyncio.create_task(lane.call(b"never"))
        await asyncio.sleep(0.05)
        await processes.kill()
        large = b"x" * 1_000_000
        assert await asyncio.gather(lane.call(b"second"), lane.call(large)) == [b"second", large]
    assert processes.started == 2
    assert not waiting.done()
    waiting.cancel()


async def test_a_lane_without_calls_connects_again_only_when_it_is_used(
    processes: Processes,
) -> None:
    lane = Lane(processes.find)
    async with asyncio.timeout(WAIT_S):
        await lane.call(b"first")
        await processes.kill()
        await asyncio.sleep(0.1)
        assert processes.started == 1
        assert await lane.call(b"second") == b"second"


async def test_a_process_that_does_not_come_back_ends_every_call(processes: Processes) -> None:
    gone = False

    async def find() -> str:
        if gone:
            raise JournalError("the store's process does not start: full disk")
        return await processes.find()

    lane = Lane(find)
    await lane.call(b"first")
    calls = [asyncio.create_task(lane.call(b"never")) for _ in range(3)]
    await asyncio.sleep(0.05)
    gone = True
    await processes.kill()
    async with asyncio.timeout(WAIT_S):
        for call in (*calls, lane.call(b"later")):
            with pytest.raises(JournalError, match="does not start: full disk"):
                await call


async def test_a_caller_that_gives_up_leaves_the_others_alone() -> None:
    serving = await serve(sized)
    lane = Lane(lambda: asyncio.sleep(0, serving.name))
    given_up = asyncio.create_task(lane.call(b"1000000"))
    kept = asyncio.create_task(lane.call(b"5"))
    await asyncio.sleep(0)
    given_up.cancel()
    async with asyncio.timeout(WAIT_S):
        assert await kept == b"xxxxx"
    with suppress(asyncio.CancelledError):
        await given_up


async def test_answers_that_nobody_fetches_hold_up_further_calls() -> None:
    begun = 0

    async def counted(call: bytes | bytearray) -> bytes:
        nonlocal begun
        begun += 1
        return await sized(call)

    serving = await serve(counted)
    lane = Lane(lambda: asyncio.sleep(0, serving.name))
    reader, writer = await asyncio.open_unix_connection(f"\0{serving.name}", limit=1000)
    count = 100
    for number in range(count):
        body = b"1000000"
        writer.write(HEADER.pack(len(body), number) + body)
        await asyncio.sleep(0.001)
    async with asyncio.timeout(WAIT_S):
        assert await lane.call(b"1") == b"x"
        assert begun < count // 2
        for _ in range(count):
            size, _ = HEADER.unpack(await reader.readexactly(HEADER.size))
            await reader.readexactly(size)
    assert begun == count + 1
    writer.close()


async def test_a_process_has_a_bounded_number_of_calls_in_work() -> None:
    free, full = asyncio.Event(), asyncio.Event()
    begun = 0

    async def blocked(call: bytes | bytearray) -> bytes:
        nonlocal begun
        begun += 1
        if begun == MAX_CALLS:
            full.set()
        await free.wait()
        return b""

    serving = await serve(blocked)
    lane = Lane(lambda: asyncio.sleep(0, serving.name))
    # The socket's buffer in the kernel holds calls beyond the frames that were read at once.
    calls = [asyncio.create_task(lane.call(b"x" * 1000)) for _ in range(MAX_CALLS + 2000)]
    async with asyncio.timeout(WAIT_S):
        await full.wait()
    before = -1
    while begun != before:
        before = begun
        await asyncio.sleep(0.3)
    assert begun <= MAX_CALLS + SHARED_BYTES // 1000
    free.set()
    async with asyncio.timeout(WAIT_S):
        await asyncio.gather(*calls)
    assert begun == len(calls)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
async def test_other_users_are_turned_away() -> None:
    serving = await serve(repeated)
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OTHER_USER, serving.name, stdout=subprocess.PIPE
    )
    said, _ = await other.communicate()
    assert said == b"b''\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
async def test_another_user_who_took_the_name_gets_no_call() -> None:
    impostor = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", IMPOSTOR),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert impostor.stdout is not None
    name = (await impostor.stdout.readline()).decode().strip()

    async def find() -> str:
        return name

    lane = Lane(find)
    with pytest.raises(OSError, match="user 65534 answers there"):
        await lane._connect(name)
    said, _ = await impostor.communicate(b"done")
    assert said == b"b''\n"


async def test_the_socket_has_no_file_and_a_name_that_fits() -> None:
    serving = await serve(repeated)
    (listening,) = serving.server.sockets
    name = listening.getsockname()
    assert isinstance(name, bytes)
    assert name[0] == 0
    assert len(name) < 107
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(name)
