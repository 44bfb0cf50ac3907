"""Copies a run to ``store.copies`` while it continues.

A copy holds what `coevolve resume --from` needs on another machine: the journal, the checkpoints
that exist by that journal, the newest version and those that are scored, the run's own initial
model, its settings and its identity. Logs, metrics and the report are left out; the last two are
written again from the journal.

The journal is copied first, in the store's process, which continues to serve. Then the folders that
this copy of the journal names are linked beside it, so that the run may remove its own. From there
a thread sends everything. Whatever fails is recorded, and the run continues.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import structlog

from coevolve.history.directory import RunDirectory
from coevolve.journal.codec import TOPICS, decode_as, topic_of, topics_of
from coevolve.journal.layout import DATA_FILE
from coevolve.journal.lookups import all_of, newest_of
from coevolve.journal.mailbox import IDLE_WAIT_S
from coevolve.journal.paging import whole_topic
from coevolve.journal.reader import STORE_FOLDER, JournalReader
from coevolve.learning.recorded_checkpoints import recorded_checkpoints
from coevolve.models.atomic_folder import files_in
from coevolve.models.tiny_random.resolve import MODEL
from coevolve.models.weight_files import file_digest
from coevolve.parts.files import FileEntry
from coevolve.runs.copies.copy_folder import CopyFolder, CopyManifest
from protocols.config import RunConfig
from protocols.control import CopyFailed, RunCopied, RunResumed
from protocols.errors import CopyError, JournalError
from protocols.interfaces import Reader, Store
from protocols.journal import Message
from protocols.learning import Checkpoint, PolicyVersion, StepReport

STAGED = ".copying"
"""Folder of the run's folder that holds a copy while it is sent."""

SETTINGS = ("config.yaml", "run.json")

log = structlog.get_logger()


class RunCopier:
    """Copies one run, one copy at a time."""

    def __init__(
        self,
        config: RunConfig,
        directory: RunDirectory,
        *,
        store: Store,
        reader: Reader,
        note: Callable[[Message], Awaitable[None]],
    ) -> None:
        """``note`` adds a record to the journal."""
        self._folder = CopyFolder(config.store.copies, config.name)
        self._directory = directory
        self._store = store
        self._reader = reader
        self._note = note
        self._copying = asyncio.Lock()
        self._digests: dict[tuple[str, int, int], str] = {}
        """Digests of files by name, size and time of change, which immutable files keep."""

    async def run(self) -> None:
        """Copy the run now if it has a checkpoint, and after each one that is kept."""
        after = 0
        while True:
            kept = False
            async for record in whole_topic(self._reader, topic_of(Checkpoint), after=after):
                after = record.sequence
                kept = kept or decode_as(record, Checkpoint).kept
            if kept:
                await self.copy()
            await self._store.wait(topics_of(Checkpoint), after, IDLE_WAIT_S)

    async def copy(self) -> None:
        """Copy the run and record the result; raises nothing."""
        async with self._copying:
            try:
                copied = await self._copy()
            except Exception as error:  # noqa: BLE001 - no fault of a copy may end the training
                copied = CopyFailed(reason=str(error) or type(error).__name__)
            finally:
                await asyncio.to_thread(discard_staged, self._directory.path)
            try:
                await self._note(copied)
            except JournalError as error:
                log.warning("copy_not_recorded", result=repr(copied), cause=str(error))

    @property
    def _staged(self) -> Path:
        return self._directory.path / STAGED

    async def _copy(self) -> RunCopied:
        started_s, made_ns = time.monotonic(), time.time_ns()
        await asyncio.to_thread(discard_staged, self._directory.path)
        await self._store.checkpoint(self._staged / STORE_FOLDER)
        step, records, resumes = await self._stage()
        earlier = await asyncio.to_thread(self._folder.manifests)
        copy = CopyManifest(
            number=1 + max((each.number for each in earlier), default=0),
            run_id=self._directory.identity().run_id,
            step=step,
            records=records,
            resumes=resumes,
            made_ns=made_ns,
            files=tuple(await asyncio.to_thread(self._entries)),
        )
        sent_bytes = await asyncio.to_thread(self._folder.add, copy, self._staged)
        return RunCopied(
            number=copy.number,
            step=step,
            records=records,
            size_bytes=sum(each.size_bytes for each in copy.files),
            sent_bytes=sent_bytes,
            wall_s=time.monotonic() - started_s,
        )

    async def _stage(self) -> tuple[int, int, int]:
        """Link what the copied journal names; return its last step, last record, and resumes."""
        reader = JournalReader(self._staged / STORE_FOLDER)
        checkpoints = (await recorded_checkpoints(reader)).existing
        versions = [each async for each in all_of(reader, PolicyVersion)]
        newest = [each.path for each in versions[-1:]]
        newest += [checkpoints[max(checkpoints)].path] if checkpoints else []
        others = [each.path for each in (*checkpoints.values(), *versions) if each.kept]
        await asyncio.to_thread(self._link, newest, others)
        last = await newest_of(reader, StepReport)
        with reader.snapshot() as state:
            records = max(state.newest(topic) for topic in TOPICS)
        resumes = [each async for each in all_of(reader, RunResumed)]
        return last.step if last else 0, records, len(resumes)

    def _link(self, needed: Iterable[str], others: Iterable[str]) -> None:
        """Link folders of the run, and its settings. Raises CopyError if a needed one is gone."""
        for path in needed:
            if not self._link_folder(path):
                raise CopyError(
                    f"{self._directory.path / path}: is missing, or was replaced while the journal "
                    "was copied"
                )
        for path in (*others, MODEL):
            self._link_folder(path)
        for name in SETTINGS:
            _link_file(self._directory.path / name, self._staged / name)

    def _link_folder(self, path: str) -> bool:
        """Link all files of a folder, or none; return whether it is there."""
        place = self._staged / path
        if place.is_dir():
            return True
        try:
            shutil.copytree(self._directory.path / path, place, copy_function=_link_file)
        except (FileNotFoundError, shutil.Error):
            shutil.rmtree(place, ignore_errors=True)
            return False
        return True

    def _entries(self) -> Iterable[FileEntry]:
        """Yield the staged files. LMDB's lock files are no part of a copy."""
        for path in files_in(self._staged):
            name = path.relative_to(self._staged)
            if name.parent != Path(STORE_FOLDER) or name.name == DATA_FILE:
                yield self._entry(path, str(name))

    def _entry(self, path: Path, name: str) -> FileEntry:
        stat = path.stat()
        content = (name, stat.st_size, stat.st_mtime_ns)
        if content not in self._digests:
            self._digests[content] = file_digest(path)
        return FileEntry(name=name, size_bytes=stat.st_size, digest=self._digests[content])


def discard_staged(run: Path) -> None:
    """Remove what a process that was killed amid a copy has left in the folder of a run."""
    shutil.rmtree(run / STAGED, ignore_errors=True)


def _link_file(source: str | Path, target: str | Path) -> None:
    """Link a file, or copy it where the file system has no links."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copy2(source, target)
