"""The proxies without Ray: every call goes to a journal in this process."""

import pickle
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors import remote_store
from actors.remote_store import Line, RemoteStore
from coevolve.journal.called_store import CalledStore
from coevolve.journal.journal import Journal
from protocols.errors import JournalError
from protocols.store_calls import Call
from tests.journals import append, bodies, record

CALL: "msgspec.msgpack.Decoder[Call]" = msgspec.msgpack.Decoder(Call)


class Here:
    """A line to a store in this process, and the calls that it carried."""

    def __init__(self, store: CalledStore) -> None:
        self._store = store
        self.calls: list[Call] = []

    async def call(self, call: bytes) -> bytes:
        self.calls.append(CALL.decode(call))
        return await self._store.answer(call)


@pytest.fixture
async def line(tmp_path: Path) -> AsyncIterator[Here]:
    store = CalledStore(Journal.open(tmp_path))
    yield Here(store)
    await store.close()


@pytest.fixture
def store(line: Here) -> RemoteStore:
    async def connect(actor: Any) -> Line:
        return line

    return RemoteStore(None, connect)


async def test_a_record_that_was_read_is_not_asked_for_again(
    line: Here, store: RemoteStore
) -> None:
    await store.append(append(*(record(str(n)) for n in range(1, 6))))
    reader = store.reader()
    assert bodies(await reader.read([2, 4])) == ["2", "4"]
    assert bodies(await reader.read([4, 3, 2, 4])) == ["4", "3", "2", "4"]
    before = len(line.calls)
    assert bodies(await reader.read([3, 2])) == ["3", "2"]
    assert len(line.calls) == before
    with pytest.raises(JournalError, match="has no record 9"):
        await reader.read([1, 9])


async def test_a_reader_keeps_the_records_that_were_read_last(
    line: Here, store: RemoteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_store, "CACHE_BYTES", 20)
    await store.append(append(*(record(str(n) * 9) for n in range(1, 5))))
    reader = store.reader()
    for sequence in (1, 2, 1, 3):
        await reader.read([sequence])
    before = len(line.calls)
    await reader.read([1, 3])
    assert len(line.calls) == before
    await reader.read([2])
    assert len(line.calls) == before + 1


async def test_an_error_that_nobody_raises_on_purpose_is_told_as_the_store_s(
    line: Here,
) -> None:
    answer = await line._store.answer(b"no call")
    found = msgspec.msgpack.decode(answer)
    assert found["error"] == "JournalError"
    assert found["message"].startswith("the store's process raised ")


async def test_another_process_gets_neither_a_connection_nor_kept_records() -> None:
    reader = RemoteStore("actor").reader()
    twin = pickle.loads(pickle.dumps(reader))
    assert twin._store._actor == "actor"
    assert twin._store._line is None
