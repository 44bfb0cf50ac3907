"""Damage is named, and what is whole is saved."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from coevolve.journal import opening
from coevolve.journal.heads import read_head
from coevolve.journal.journal import Journal
from coevolve.journal.layout import DATA_FILE
from coevolve.journal.mark import MARK_FILE
from coevolve.journal.reader import JournalReader
from coevolve.journal.repair import repair
from coevolve.journal.verification import faults
from protocols.errors import JournalDamagedError, JournalError, JournalLockedError
from tests.faults import PAGE_BYTES
from tests.journals import (
    append,
    appended,
    bodies,
    complete,
    completed,
    everything,
    record,
    take,
    taken,
)

NAMES = [f"{number:02}" for number in range(40)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A journal with 40 records of 5 kB, of which 10 are finished and 3 finished out of order."""
    folder = tmp_path / "store"
    journal = Journal.open(folder)
    appended(journal, append(*(record(name * 2500, "task", id=name) for name in NAMES)))
    work = taken(journal, take("task", limit=20))
    completed(journal, complete(*work[:10], *work[12:15]))
    journal.close()
    return folder


def damage(folder: Path, text: str) -> None:
    """Change one byte after the first occurrence of ``text`` in the file."""
    file = folder / DATA_FILE
    content = bytearray(file.read_bytes())
    content[content.index(text.encode()) + len(text)] ^= 1
    file.write_bytes(content)


def zero(folder: Path, pages: Iterator[int]) -> None:
    content = bytearray((folder / DATA_FILE).read_bytes())
    for page in pages:
        content[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = bytes(PAGE_BYTES)
    (folder / DATA_FILE).write_bytes(content)


def read(folder: Path) -> list[str]:
    journal = Journal.open(folder)
    found = [body[:2] for body in bodies(everything(journal))]
    journal.close()
    return found


def test_a_folder_whose_name_is_no_text_is_refused(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / os.fsdecode(b"\xff")
    shutil.copytree(folder, other)
    for reading in (Journal.open, faults, lambda at: JournalReader(at).snapshot().__enter__()):
        with pytest.raises(JournalError, match="path is text in UTF-8"):
            reading(other)


def test_a_whole_journal_has_no_faults(folder: Path) -> None:
    assert faults(folder) == []


def test_a_changed_record_is_refused_named_and_left_out(folder: Path) -> None:
    damage(folder, "07" * 20)
    assert len(faults(folder)) == 1
    assert faults(folder)[0].startswith("record 8 needs checksum ")
    with (
        pytest.raises(JournalDamagedError, match=r"data.mdb: record 8 needs .*journal repair RUN"),
        JournalReader(folder).snapshot() as state,
    ):
        state.find("id", "07")
    done = repair(folder)
    assert done.gone == ("record 8 is gone; it was listed under id 07, task",)
    assert done.kept == len(NAMES) - 1
    assert (done.damaged / DATA_FILE).is_file()
    assert faults(folder) == []
    assert read(folder) == [name for name in NAMES if name != "07"]


def test_a_repaired_journal_goes_on_where_the_old_one_was(folder: Path) -> None:
    damage(folder, "39" * 20)
    repair(folder)
    journal = Journal.open(folder)
    assert taken(journal, take("task", incarnation="m2", limit=100)) == [
        11, 12, *range(16, len(NAMES))
    ]  # fmt: skip
    assert appended(journal, append(record("new"), producer="other")) == (len(NAMES) + 1,)
    assert completed(journal, complete(*range(1, 11), *range(13, 16))) == ()
    journal.close()


def test_all_records_are_found_though_no_head_leads_to_them(folder: Path) -> None:
    zero(folder, iter((0, 1)))
    with pytest.raises(JournalError, match=r"needs two LMDB heads and has 0.*repair RUN"):
        Journal.open(folder)
    assert repair(folder).kept == len(NAMES)
    assert faults(folder) == []
    assert read(folder) == NAMES


def test_a_lost_tree_of_tables_costs_no_record(folder: Path) -> None:
    zero(folder, iter((read_head(folder / DATA_FILE).main.root,)))
    with pytest.raises(JournalDamagedError, match="the list of tables leads to"):
        JournalReader(folder)
    assert repair(folder).kept == len(NAMES)
    assert read(folder) == NAMES


def test_an_older_file_in_the_place_of_a_newer_one_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / DATA_FILE, tmp_path / "older")
    journal = Journal.open(folder)
    appended(journal, append(record("new"), producer="other"))
    journal.close()
    shutil.copy(tmp_path / "older", folder / DATA_FILE)
    with pytest.raises(JournalDamagedError, match="so the last ones are lost"):
        Journal.open(folder)
    lost = "is missing or empty, and it had been written"
    for remove in (lambda file: file.write_bytes(b""), Path.unlink):
        remove(folder / DATA_FILE)
        with pytest.raises(JournalDamagedError, match=lost):
            Journal.open(folder)
        with (
            pytest.raises(JournalDamagedError, match=lost),
            JournalReader(folder).snapshot(),
        ):
            pass
    (folder / MARK_FILE).write_bytes(b"x" * 16)
    shutil.copy(tmp_path / "older", folder / DATA_FILE)
    assert read(folder) == NAMES


def test_a_journal_that_is_being_written_is_not_repaired(folder: Path) -> None:
    journal = Journal.open(folder)
    with pytest.raises(JournalLockedError):
        repair(folder)
    journal.close()


def test_what_was_found_whole_is_checked_again_only_if_it_changed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[Path] = []

    def check(file: Path) -> None:
        checked.append(file)
        whole(file)

    def newest() -> int:
        with JournalReader(folder).snapshot() as state:
            return state.newest("request")

    whole = opening.check_pages
    monkeypatch.setattr(opening, "check_pages", check)
    assert newest() == newest()
    assert len(checked) == 1
    with (folder / DATA_FILE).open("r+b") as file:
        file.truncate(2 * PAGE_BYTES)
    with pytest.raises(JournalDamagedError):
        newest()
    assert len(checked) == 2
