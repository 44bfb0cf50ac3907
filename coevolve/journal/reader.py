"""Read access to a journal from any process on the writer's machine, without calls to the writer.

The reader maps the file read-only, sees every finished transaction at once, and takes no lock that
a writer waits for. It survives the writer's death and restart, and the growth of the file and of
the map. Each answer shows one consistent state; use `snapshot` for several answers about the same
state. Use a reader from one thread at a time.
"""

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar
from weakref import WeakValueDictionary

import lmdb

from coevolve.foreign import resolved
from coevolve.journal.damage import naming_damage
from coevolve.journal.layout import DATA_FILE
from coevolve.journal.opening import open_for_reading
from coevolve.journal.queries import Snapshot
from coevolve.journal.stale_readers import refuse_evicted
from protocols.journal import StoredRecord

STORE_FOLDER = "store"
"""Folder of the journal inside a run directory."""

DOUBT_S = 0.1
"""Duration of a snapshot from which on this process may have been stopped meanwhile."""

_EVERYTHING = (1 << 64) - 1


class _Map:
    """A mapped file.

    LMDB allows one map per file and process, so this process's readers share it.
    """

    opened: ClassVar["WeakValueDictionary[Path, _Map]"] = WeakValueDictionary()

    def __init__(self, folder: Path) -> None:
        self.file = folder / DATA_FILE
        self.env, self.tables = open_for_reading(folder)

    def __del__(self) -> None:
        if hasattr(self, "env"):
            self.env.close()

    @classmethod
    def of(cls, folder: Path) -> "_Map":
        folder = resolved(folder)
        shared = cls.opened.get(folder)
        if shared is None:
            shared = cls.opened[folder] = cls(folder)
        return shared


class JournalReader:
    """A `protocols.interfaces.Reader` on the memory map.

    Do not use it in the writer's own process.
    """

    def __init__(self, folder: Path) -> None:
        """Map the journal. Raises JournalFormatError, or JournalError if there is no journal."""
        self._map = _Map.of(folder)

    async def read(self, sequences: Sequence[int]) -> Sequence[StoredRecord]:
        """Return these records in this order. Raises JournalError if one was deleted."""
        with self.snapshot() as state:
            return state.read(sequences)

    async def scan(self, topic: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        """Return the oldest ``limit`` records of ``topic`` after sequence ``after``."""
        with self.snapshot() as state:
            return state.scan(topic, after, limit)

    async def last(self, topic: str) -> StoredRecord | None:
        """Return the newest record of ``topic``, or None if it has none."""
        with self.snapshot() as state:
            return state.last(topic)

    async def find(self, index: str, key: str, limit: int = 1000) -> Sequence[StoredRecord]:
        """Return the oldest ``limit`` records that carry the index key."""
        with self.snapshot() as state:
            return state.find(index, key, limit)

    @contextmanager
    def snapshot(self) -> Generator[Snapshot]:
        """Open a consistent snapshot; while it is open, the file cannot reuse old pages.

        Raises JournalError at its end if this process was stopped meanwhile, for so long that the
        writer ended the snapshot.
        """
        env, tables = self._map.env, self._map.tables
        try:
            txn = env.begin(buffers=True)
        except lmdb.MapResizedError:
            env.set_mapsize(0)
            txn = env.begin(buffers=True)
        began_s = time.monotonic()
        with naming_damage(self._map.file), txn:
            yield Snapshot(txn, tables, _EVERYTHING)
            if time.monotonic() - began_s >= DOUBT_S:
                refuse_evicted(env, txn.id())


def run_reader(run_dir: Path) -> JournalReader:
    """Return read access to the journal of the run in ``run_dir``."""
    return JournalReader(run_dir / STORE_FOLDER)
