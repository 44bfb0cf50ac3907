"""The files of a run beside its journal: versions, settings, and copies of the journal."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import msgspec

from coevolve.history.directory import RunDirectory
from coevolve.journal.journal import Journal
from coevolve.models.atomic_folder import files_in, write_folder
from coevolve.runs.starting import create
from protocols.config import RunConfig
from tests.journals import append, appended, record


def write(folder: Path, mark: Callable[[str], None], chosen: Iterator[int]) -> Generator[None]:
    """Make a run in ``folder`` and write its files again and again; mark what is written."""
    config = msgspec.convert({"name": "cut"}, RunConfig)
    directory = create(folder, config)
    mark("config 0")
    journal = Journal.open(directory.store)
    with closing(journal):
        for number in chosen:
            mark(f"began {number}")
            write_folder(folder / "versions" / f"v_{number}", partial(_fill, number))
            mark(f"version {number}")
            directory.write_config(msgspec.structs.replace(config, seed=number))
            mark(f"config {number}")
            appended(journal, append(record(str(number)), counter=number))
            journal.checkpoint(folder / "copies" / str(number))
            mark(f"copy {number}")
            yield


def check(folder: Path, marks: Sequence[str]) -> None:
    """Raise AssertionError or CoevolveError unless each file is absent or complete.

    What was marked has to be there.
    """
    said = [mark.split() for mark in marks]
    _check_versions(folder, {int(number) for what, number in said if what == "version"})
    _check_copies(folder, {int(number) for what, number in said if what == "copy"})
    written = [int(number) for what, number in said if what == "config"]
    if written:
        run = RunDirectory(folder)
        assert run.identity().name == "cut"
        assert run.config().seed in (written[-1], written[-1] + 1)


def _fill(number: int, folder: Path) -> None:
    (folder / "weights").write_bytes(_weights(number))
    (folder / "inner").mkdir()
    (folder / "inner" / "state").write_text(str(number))


def _weights(number: int) -> bytes:
    return number.to_bytes(4, "little") * (2000 + number * 37 % 900)


def _check_versions(folder: Path, written: set[int]) -> None:
    found = {int(each.name[2:]): each for each in (folder / "versions").glob("v_*")}
    assert found.keys() >= written, "a version is missing"
    for number, version in found.items():
        names = [str(each.relative_to(version)) for each in files_in(version)]
        assert names == ["inner/state", "weights"], f"version {number} is incomplete"
        assert (version / "weights").read_bytes() == _weights(number), "weights are incomplete"
        assert (version / "inner" / "state").read_text() == str(number)


def _check_copies(folder: Path, written: set[int]) -> None:
    found = {int(each.name): each for each in (folder / "copies").glob("*") if each.name.isdigit()}
    assert found.keys() >= written, "a copy is missing"
    for number, copy in found.items():
        with closing(Journal.open(copy)) as journal, journal.snapshot() as state:
            bodies = [int(stored.body) for stored in state.scan("note")]
        assert bodies == list(range(1, number + 1)), f"copy {number} is incomplete"
