from pathlib import Path

import msgspec

from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.validation.gates import Match
from coevolve.validation.ledger import Ledger
from tests.evolving import admission, seed, write

MOST = 3


class Keys:
    """An index that only knows its keys."""

    def __init__(self) -> None:
        self.keys: set[str] = set()

    def add(self, key: str, body: msgspec.Raw) -> None:
        self.keys.add(key)

    def discard(self, key: str) -> None:
        self.keys.discard(key)

    def nearest(self, body: msgspec.Raw) -> Match | None:
        raise AssertionError(body)

    def overlapping(self, body: msgspec.Raw) -> Match | None:
        raise AssertionError(body)


async def test_the_index_keeps_seeds_and_the_newest_synthesized_tasks(tmp_path: Path):
    journal = Journal.open(tmp_path)
    admissions = [admission(f"c{number}", "s", f"m{number}") for number in range(6)]
    write(
        journal, [seed("seed-1"), seed("seed-2"), *(each for pair in admissions for each in pair)]
    )
    live, rebuilt = Keys(), Keys()
    ledger = Ledger(LocalStore(journal), live, most_tasks=MOST)
    for pair in admissions:
        ledger.expect(pair)
    assert live.keys == {"m3", "m4", "m5"}
    await Ledger(LocalStore(journal), rebuilt, most_tasks=MOST).follow()
    assert rebuilt.keys == {"seed-1", "seed-2", "m3", "m4", "m5"}
    journal.close()


async def test_records_that_are_added_twice_forget_nothing_more(tmp_path: Path):
    journal = Journal.open(tmp_path)
    index = Keys()
    ledger = Ledger(LocalStore(journal), index, most_tasks=MOST)
    newest = admission("c9", "s", "m9")
    write(journal, [seed(), *admission("c0", "s", "m0"), *admission("c1", "s", "m1")])
    await ledger.follow()
    ledger.expect(newest)
    ledger.expect(newest)
    assert index.keys == {"seed-1", "m0", "m1", "m9"}
    journal.close()
