"""Read access to a journal from any process on the writer's machine, without calls to the writer.

The reader maps the file read-only, sees every finished transaction at once, and takes no lock that
a writer waits for. It survives the writer's death and restart, the growth of the file and of the
map, and a repair, after which it reads the new file; a snapshot shows the same state until its end.
Each answer shows one consistent state; use `snapshot` for several answers about the same state. Use
a reader from one thread at a time; each thread can have its own.
"""

import os
import threading
import time
import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import lmdb

from coevolve.base.foreign import resolved
from coevolve.journal.damage import naming_damage
from coevolve.journal.layout import DATA_FILE
from coevolve.journal.opening import open_for_reading
from coevolve.journal.queries import Snapshot
from coevolve.journal.stale_readers import refuse_evicted
from protocols.errors import JournalError
from protocols.journal import StoredRecord

STORE_FOLDER = "store"
"""Folder of the journal inside a run directory."""

DOUBT_S = 0.1
"""Duration of a snapshot from which on this process may have been stopped meanwhile."""

_EVERYTHING = (1 << 64) - 1

_Identity = tuple[int, int] | None
"""Device and inode of a file; None if there is no file."""


def _identity(path: str) -> _Identity:
    try:
        found = os.stat(path)  # noqa: PTH116 - before every snapshot, and three times as fast
    except OSError:
        return None
    return found.st_dev, found.st_ino


class _Map:
    """A mapped file, which the readers of this process and their open snapshots share.

    LMDB allows one map per file and process. The last user closes it.
    """

    _opening: ClassVar = threading.Lock()
    _counting: ClassVar = threading.RLock()
    """Reentrant, because a reader may be collected as garbage at any time."""

    _opened: ClassVar[dict[_Identity, "_Map"]] = {}

    def __init__(self, folder: Path, identity: _Identity) -> None:
        self.file = folder / DATA_FILE
        self.path = str(self.file)
        self.identity = identity
        self.env, self.tables = open_for_reading(folder)
        self._users = 0

    @classmethod
    def taken(cls, folder: Path) -> "_Map":
        """Return the map of the file that is in ``folder`` now; `let_go` has to follow."""
        path = str(folder / DATA_FILE)
        with cls._opening:
            while True:
                identity = _identity(path)
                with cls._counting:
                    if shared := cls._opened.get(identity):
                        return shared.used()
                opened = cls(folder, identity)
                if _identity(path) == identity:
                    cls._opened[identity] = opened
                    return opened.used()
                opened.env.close()  # a repair has put another file there meanwhile

    def used(self) -> "_Map":
        """Count a user more."""
        with self._counting:
            self._users += 1
        return self

    def let_go(self) -> None:
        """Count a user less."""
        with self._counting:
            self._users -= 1
            if not self._users:
                del self._opened[self.identity]
                self.env.close()

    def begin(self) -> "lmdb.Transaction[memoryview]":
        """Begin a transaction. Raises JournalError if the file has outgrown the map."""
        try:
            return self.env.begin(buffers=True)
        except lmdb.MapResizedError as error:
            size_bytes = self.env.info()["map_size"]
            raise JournalError(
                f"{self.file}: has grown beyond the {size_bytes} bytes of address space that this "
                "process has reserved for it; start the process again"
            ) from error


class JournalReader:
    """A `protocols.interfaces.Reader` on the memory map.

    Do not use it in the writer's own process.
    """

    def __init__(self, folder: Path) -> None:
        """Map the journal. Raises JournalFormatError, or JournalError if there is no journal."""
        self._folder = resolved(folder.parent) / folder.name  # a link is refused
        self._follow()

    async def read(self, sequences: Sequence[int]) -> Sequence[StoredRecord]:
        with self.snapshot() as state:
            return state.read(sequences)

    async def scan(self, topic: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        with self.snapshot() as state:
            return state.scan(topic, after, limit)

    async def last(self, topic: str) -> StoredRecord | None:
        with self.snapshot() as state:
            return state.last(topic)

    async def find(self, index: str, key: str, limit: int = 1000) -> Sequence[StoredRecord]:
        with self.snapshot() as state:
            return state.find(index, key, limit)

    @contextmanager
    def snapshot(self) -> Generator[Snapshot]:
        """Open a consistent snapshot; while it is open, the file cannot reuse old pages.

        Raises JournalError at its end if this process was stopped meanwhile, for so long that the
        writer ended the snapshot.
        """
        mapped = self._current().used()
        try:
            with naming_damage(mapped.file), mapped.begin() as txn:
                began_s = time.monotonic()
                yield Snapshot(txn, mapped.tables, _EVERYTHING)
                if time.monotonic() - began_s >= DOUBT_S:
                    refuse_evicted(mapped.env, txn.id())
        finally:
            mapped.let_go()

    def _current(self) -> _Map:
        """Return the map of the file that is in the folder now; the last one if there is none."""
        if _identity(self._map.path) not in (self._map.identity, None):
            self._let_go()
            self._follow()
        return self._map

    def _follow(self) -> None:
        self._map = _Map.taken(self._folder)
        self._let_go = weakref.finalize(self, self._map.let_go)


def run_reader(run_dir: Path) -> JournalReader:
    return JournalReader(run_dir / STORE_FOLDER)
