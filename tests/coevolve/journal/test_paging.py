from pathlib import Path

import pytest

from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.paging import newest
from protocols.journal import Append, Receipt, Record


async def _newest(folder: Path, topics: list[str], count: int) -> list[int]:
    journal = Journal.open(folder)
    records = tuple(Record(topic=topic, body=b"") for topic in topics)
    receipt = Receipt(producer="p", counter=1)
    journal.append(Append(records=records, receipt=receipt)).result(10)
    found = await newest(LocalStore(journal), "signal", count, lambda each: each.sequence % 2 == 0)
    journal.close()
    return [record.sequence for record in found]


@pytest.mark.parametrize("count", [0, 1, 3, 2000])
async def test_the_newest_records_of_a_topic_are_found_however_far_back(tmp_path: Path, count: int):
    topics = ["task", "signal", "signal", "signal", *["task"] * 5000, "signal", *["task"] * 2]
    topics += ["signal"] * 1500
    expected = [n for n, topic in enumerate(topics, 1) if topic == "signal" and n % 2 == 0]
    found = await _newest(tmp_path, topics, count)
    assert found == expected[max(0, len(expected) - count) :]


async def test_a_topic_without_records_has_no_newest_ones(tmp_path: Path):
    assert await _newest(tmp_path, ["task"], 3) == []
