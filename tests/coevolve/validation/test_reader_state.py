"""When the journal says that the reader of instructions rests."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.validation.reader_state import REST_AFTER, ReaderState
from protocols.errors import EndpointError
from protocols.evolution import ReaderAnswers, ReaderRests
from protocols.journal import Message
from tests.scripted import add

DOWN = EndpointError("no answer")
RESTS, ANSWERS = ReaderRests(failures=REST_AFTER, reason="no answer"), ReaderAnswers()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    journal = Journal.open(tmp_path)
    yield LocalStore(journal)
    journal.close()


@pytest.mark.parametrize(
    ("journal", "calls", "written"),
    [
        ([], "f" * (REST_AFTER - 1), []),
        ([], "f" * (REST_AFTER + 2), [RESTS]),
        ([], "fffafff", [RESTS, ANSWERS, RESTS]),
        ([], "ffaffa", []),  # never so many in a row
        ([], "aa", []),
        ([RESTS], "a", [ANSWERS]),
        ([RESTS], "ffff", []),
        ([RESTS, ANSWERS], "a", []),
        ([RESTS, ANSWERS], "fff", [RESTS]),
    ],
)
async def test_a_reader_rests_after_failures_in_a_row_whoever_counted_before(
    store: LocalStore, journal: list[Message], calls: str, written: list[Message]
):
    """``calls`` are failures and answers, after what the ``journal`` says of earlier ones."""
    if journal:
        await add(store, *journal)
    said: list[Message] = []

    async def append(messages: Sequence[Message]) -> tuple[int, ...]:
        said.extend(messages)
        return ()

    state = ReaderState(append)
    await state.restore(store)
    for call in calls:
        await (state.failed(DOWN) if call == "f" else state.answered())
    assert said == written
