"""What one old unfinished record costs while later records come and go."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest

from coevolve.journal.consumers import Consumer, lease, new_place
from coevolve.journal.journal import Journal
from coevolve.journal.queries import Snapshot
from tests.journals import append, appended, complete, completed, record, take, taken

RECORDS = 300


class Watched:
    """A snapshot that counts the sequences that a search looks at."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.seen = 0

    def topic(self, sequence: int) -> str | None:
        return self._snapshot.topic(sequence)

    def sequences(self, entry: bytes, after: int) -> Iterator[int]:
        for sequence in self._snapshot.sequences(entry, after):
            self.seen += 1
            yield sequence


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal.open(tmp_path / "store")
    appended(journal, append(*(record(topic="work") for _ in range(RECORDS)), producer="start"))
    yield journal
    journal.close()


def finished_but_the_first() -> Consumer:
    """Return a consumer of `RECORDS` records, as after a restart."""
    consumer = Consumer("c")
    consumer.places["work"] = new_place("c", "work", 0)
    for sequence in range(2, RECORDS + 1):
        consumer.place("work").finish([sequence])
    return consumer


def searched(consumer: Consumer, journal: Journal, **request: Any) -> tuple[list[int], int]:
    """Return the leased sequences, and how many the search looked at."""
    with journal.snapshot() as snapshot:
        state: Any = Watched(snapshot)
        found, _ = lease(consumer, take("work", **request), state, 0.0)
        return [sequence for sequence, _ in found], state.seen


def test_finished_records_beyond_an_unfinished_one_are_searched_once(journal: Journal) -> None:
    consumer = finished_but_the_first()
    assert searched(consumer, journal) == ([1], RECORDS)
    assert searched(consumer, journal, held=[1]) == ([], 0)
    appended(journal, append(record(topic="work"), producer="more"))
    assert searched(consumer, journal, held=[1]) == ([RECORDS + 1], 1)
    assert searched(consumer, journal, held=[1, RECORDS + 1]) == ([], 0)


def test_a_record_that_is_given_up_is_found_again(journal: Journal) -> None:
    consumer = finished_but_the_first()
    assert searched(consumer, journal)[0] == [1]
    assert searched(consumer, journal, held=[])[0] == [1]
    assert searched(consumer, journal, member="other", held=[]) == ([], 0)
    consumer.release_member("m")
    assert searched(consumer, journal, member="other")[0] == [1]


def test_a_record_beyond_the_limit_is_left_for_the_next_take(journal: Journal) -> None:
    appended(journal, append(record(topic="play"), record(topic="work"), producer="more"))
    consumer = finished_but_the_first()
    consumer.places["play"] = new_place("c", "play", 0)
    with journal.snapshot() as state:
        both = take("work", "play", limit=1)
        assert lease(consumer, both, state, 0.0)[0] == [(1, "work")]
        both = take("work", "play", limit=5, held=[1])
        assert lease(consumer, both, state, 0.0)[0] == [
            (RECORDS + 1, "play"),
            (RECORDS + 2, "work"),
        ]


def test_the_rows_of_finished_records_go_when_the_oldest_is_finished(
    journal: Journal, tmp_path: Path
) -> None:
    assert len(taken(journal, take("work", limit=RECORDS))) == RECORDS
    for counter, sequence in enumerate(range(RECORDS, 0, -1), 1):
        completed(journal, complete(sequence, counter=counter))
        if sequence == 2:
            assert _rows(journal, tmp_path) == RECORDS - 1
    assert _rows(journal, tmp_path) == 0


def _rows(journal: Journal, folder: Path) -> int:
    """Return the number of rows about finished records beyond the cursors."""
    copy = folder / f"copy-{len(list(folder.iterdir()))}"
    journal.checkpoint(copy)
    with lmdb.open(str(copy), readonly=True, max_dbs=16) as env, env.begin() as txn:
        return txn.stat(env.open_db(b"acks", txn, create=False))["entries"]
