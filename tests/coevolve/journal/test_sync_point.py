import time
from pathlib import Path

from coevolve.journal.journal import Journal
from coevolve.journal.sync_point import GROWTH_PAGES
from coevolve.journal.synced_file import read_synced
from tests.journals import WAIT_S, append, appended, record

PAGE_BYTES = 4096
PARTS = 16


def flushes(folder: Path) -> int:
    """Return how often the journal was flushed."""
    synced = read_synced(folder)
    return synced.number if synced else 0


def test_a_file_that_grows_much_is_flushed_before_the_pause_ends(tmp_path: Path):
    journal = Journal.open(tmp_path, sync_s=10 * WAIT_S)
    opened = flushes(tmp_path)
    body = "." * (GROWTH_PAGES * PAGE_BYTES // PARTS)
    for number in range(PARTS // 2):
        appended(journal, append(record(body), counter=number + 1))
    time.sleep(0.1)
    assert flushes(tmp_path) == opened
    for number in range(PARTS // 2, PARTS + 1):
        appended(journal, append(record(body), counter=number + 1))
    ends_s = time.monotonic() + WAIT_S
    while flushes(tmp_path) == opened:
        assert time.monotonic() < ends_s, "no flush"
        time.sleep(0.01)
    journal.close()
