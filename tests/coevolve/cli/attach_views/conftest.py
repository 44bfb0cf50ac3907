from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from coevolve.cli.attach_views.subject import LiveRun, Subject
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.runs import starting
from protocols.config import RunConfig
from protocols.journal import Message
from tests.evolving import write
from tests.fakes import ScriptPart


@pytest.fixture(autouse=True)
def tables_are_as_wide_as_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing name the width of a terminal; pytest's workers do."""
    monkeypatch.delenv("COLUMNS", raising=False)


class Stage:
    """A run's folder and journal, presented as a stopped or as a running run."""

    def __init__(self, journal: Journal, config: RunConfig, folder: Path) -> None:
        self._journal = journal
        self.config = config
        self.folder = folder
        self.store = LocalStore(journal)

    def write(self, messages: Sequence[Message]) -> None:
        write(self._journal, messages)

    def subject(self, *, running: bool = False, arm: str = "full") -> Subject:
        config = msgspec.structs.replace(self.config, arm=arm)
        live = LiveRun(store=self.store, parts=[ScriptPart("learner", [])])
        return Subject(
            name="evolving",
            run_id="run",
            settings=lambda: config,
            reader=self.store,
            running=running,
            live=live if running else None,
            folder=self.folder,
        )


@pytest.fixture
def stage(tmp_path: Path, quickstart: RunConfig) -> Iterator[Stage]:
    directory = starting.create(tmp_path / "evolving", quickstart)
    journal = Journal.open(directory.store)
    yield Stage(journal, quickstart, directory.path)
    journal.close()
