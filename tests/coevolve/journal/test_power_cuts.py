import shutil
from pathlib import Path

import pytest

from coevolve.journal.journal import Journal
from coevolve.journal.layout import DATA_FILE
from coevolve.journal.reader import JournalReader
from coevolve.journal.synced_file import SLOT_BYTES, SYNCED_FILE
from protocols.errors import JournalFormatError
from protocols.journal import Durability
from tests.journals import append, appended, bodies, everything, record
from tests.powercuts.cutting import Level, cut

CUTS = 12
SLACK_BYTES = 4 << 20
LONG_S = 3600.0
"""Longer than a test: after the journal is opened, nothing is flushed."""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("level", ["process", "power", "files"])
def test_a_power_cut_leaves_what_the_level_promises(tmp_path: Path, level: Level) -> None:
    found = cut(level, CUTS, lives=2, life_s=0.2, seed=5, place=tmp_path, images=tmp_path)
    assert found.faults == {}
    assert found.whole == CUTS
    assert found.acknowledged > CUTS


def test_after_a_cut_the_journal_has_the_state_of_the_last_flush(tmp_path: Path) -> None:
    store, image = tmp_path / "store", tmp_path / "image"
    journal = Journal.open(store, boot="first")
    appended(journal, append(record("flushed")))
    journal.close()
    journal = Journal.open(store, boot="first", sync_s=LONG_S)
    for counter in range(2, 9):
        appended(journal, append(record("not flushed"), counter=counter))
    shutil.copytree(store, image)
    journal.close()
    journal = Journal.open(image, boot="second")
    assert bodies(everything(journal)) == ["flushed"]
    assert appended(journal, append(record("again"), counter=2)) == (2,)
    journal.close()
    journal = Journal.open(image, boot="third")
    assert bodies(everything(journal)) == ["flushed", "again"]
    journal.close()


def test_without_a_cut_a_killed_writers_journal_has_everything(tmp_path: Path) -> None:
    store, image = tmp_path / "store", tmp_path / "image"
    journal = Journal.open(store, boot="first", sync_s=LONG_S)
    appended(journal, append(record("not flushed")))
    shutil.copytree(store, image)
    journal.close()
    journal = Journal.open(image, boot="first")
    assert bodies(everything(journal)) == ["not flushed"]
    journal.close()


def test_the_file_is_bounded_without_a_flush_in_time(tmp_path: Path) -> None:
    sizes: list[int] = []
    for slack_bytes in (SLACK_BYTES, 1 << 40):
        store, image = tmp_path / f"store-{slack_bytes}", tmp_path / f"image-{slack_bytes}"
        journal = Journal.open(
            store, boot="first", retain_bytes=0, sync_s=LONG_S, slack_bytes=slack_bytes
        )
        for counter in range(1, 1001):
            appended(journal, append(record("x", topic="rollout"), counter=counter))
        sizes.append((store / DATA_FILE).stat().st_size)
        shutil.copytree(store, image)
        journal.close()
        journal = Journal.open(image, boot="second", retain_bytes=0)
        restored = journal.newest(())
        journal.close()
        assert (restored > 0) == (slack_bytes == SLACK_BYTES)
    bounded, free = sizes
    assert bounded < 1.2 * SLACK_BYTES < 4 * SLACK_BYTES < free


async def test_a_reader_that_comes_first_sees_the_state_of_the_last_flush(tmp_path: Path) -> None:
    store, image = tmp_path / "store", tmp_path / "image"
    journal = Journal.open(store, boot="another start of the machine", sync_s=LONG_S)
    appended(journal, append(record("not flushed")))
    shutil.copytree(store, image)
    journal.close()
    assert await JournalReader(image).last("note") is None


def test_a_checkpoint_put_in_the_journals_place_is_not_changed(tmp_path: Path) -> None:
    store, copy = tmp_path / "store", tmp_path / "copy"
    journal = Journal.open(store, boot="first")
    appended(journal, append(record("old")))
    journal.checkpoint(copy)
    appended(journal, append(record("new"), counter=2))
    journal.close()
    shutil.copy(copy / DATA_FILE, store / DATA_FILE)
    journal = Journal.open(store, boot="second")
    assert bodies(everything(journal)) == ["old"]
    journal.close()


@pytest.mark.parametrize("later", ["process", "power"])
def test_the_level_may_change_between_starts(tmp_path: Path, later: Durability) -> None:
    earlier: Durability = "power" if later == "process" else "process"
    for number, level in enumerate((earlier, later, earlier), 1):
        journal = Journal.open(tmp_path, durability=level, boot=str(number))
        appended(journal, append(record(str(number)), counter=number))
        assert bodies(everything(journal)) == [str(each) for each in range(1, number + 1)]
        journal.close()


def test_a_damaged_note_of_the_last_flush_is_refused(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    appended(journal, append(record()))
    journal.close()
    file = tmp_path / SYNCED_FILE
    content = bytearray(file.read_bytes())
    content[9] ^= 1
    content[SLOT_BYTES + 9] ^= 1
    file.write_bytes(content)
    with pytest.raises(JournalFormatError, match=r"synced is damaged.* restore a checkpoint"):
        Journal.open(tmp_path)
