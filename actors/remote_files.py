"""The run's folder as parts on other nodes see it: copies, and a proxy for its actor.

A folder travels in pieces through Ray's object store, so a large version needs little memory. It is
copied once per node, whatever the number of parts there, and its copy is compared with the digests
of the original. A copy is complete or absent.
"""

import asyncio
import contextlib
import fcntl
import shutil
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import ray
from ray.exceptions import RayError, RayTaskError

from coevolve.models.atomic_folder import begin_folder, finish_folder, partial_of, write_folder
from coevolve.models.scratch_folder import scratch_folder
from coevolve.models.weight_files import joint_digest
from coevolve.parts.files import FileEntry, check, disk_errors, listing_of, read_piece, write_piece
from coevolve.parts.privacy import claim
from protocols.errors import CoevolveError, TransferError

FILES_NAME = "files"
"""The actor's name in the run's Ray namespace."""

PIECE = 32 << 20
"""Bytes of a file that one call carries."""

AHEAD = 2
"""Pieces that are under way at a time."""

TRIES = 3


class RemoteFiles:
    """A `protocols.interfaces.Files` on a node that has only copies."""

    def __init__(self, actor: Any, folder: Path) -> None:
        """Keep the copies in ``folder``, which the parts of this node share.

        Raises TransferError if the folder is another user's.
        """
        claim(folder)
        self._actor = actor
        self.folder = folder

    async def fetch(self, path: str, *, keep: int = 0) -> Path:
        """Return a copy of the folder, which is as the original is now. Raises TransferError."""
        return await asyncio.to_thread(self.fetch_now, path, keep=keep)

    def fetch_now(self, path: str, *, keep: int = 0) -> Path:
        folder = self.folder / path
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder):
            _tried(lambda: self._copy(path, folder))
        if keep:
            _drop_older(folder, keep)
        return folder

    def assemble(self, path: str, write: Callable[[Path], None]) -> tuple[str, int]:
        """Make the folder in the run's folder; return its digest and its size in bytes.

        It stays here if no other node has written a part. Raises CheckpointError, TransferError.
        """
        folder = self.folder / path
        _answer(self._actor.begin.remote(path))
        write_folder(folder, write)
        _tried(lambda: self._send(path, folder))
        listing: list[FileEntry] = _answer(self._actor.finish.remote(path))
        if listing == listing_of(folder):
            _listing_file(folder).write_bytes(msgspec.json.encode(listing))
        else:
            _drop(folder)
        digest = joint_digest((each.name, each.digest) for each in listing)
        return digest, sum(each.size_bytes for each in listing)

    def contribute(self, path: str, write: Callable[[Path], None]) -> None:
        """Let ``write`` write files, and send them to the folder that is assembled."""
        with scratch_folder() as scratch:
            write(scratch.path)
            _tried(lambda: self._send(path, scratch.path))

    async def publish(self, path: str) -> None:
        """Copy the finished folder into the run's folder. Raises TransferError."""
        await asyncio.to_thread(_tried, lambda: self._publish(path))

    async def names(self, path: str) -> Sequence[str]:
        """Return the names in a folder of the run's folder."""
        return await asyncio.to_thread(_answer, self._actor.names.remote(path))

    async def remove(self, path: str) -> None:
        """Remove a folder there and here."""
        await asyncio.to_thread(_answer, self._actor.remove.remote(path))
        _drop(self.folder / path)

    def log(self, name: str, line: str) -> None:
        """Append a line to a part's log in the run's folder, without waiting for it."""
        self._actor.log.remote(name, line)

    def _copy(self, path: str, folder: Path) -> None:
        listing = _answer(self._actor.listing.remote(path))
        if folder.is_dir() and _copied(folder) == listing:
            return
        with disk_errors(_uncopied(folder)):
            begin_folder(folder)
            partial = partial_of(folder)
            for entry, offset, content in self._pieces(path, listing):
                write_piece(partial / entry.name, offset, content)
            check(partial, listing)
            finish_folder(folder)
            _listing_file(folder).write_bytes(msgspec.json.encode(listing))

    def _pieces(
        self, path: str, listing: Sequence[FileEntry]
    ) -> Iterator[tuple[FileEntry, int, bytes]]:
        under_way: deque[tuple[FileEntry, int, Any]] = deque()
        for entry, offset in _offsets(listing):
            call = self._actor.read.remote(path, entry.name, offset, PIECE)
            under_way.append((entry, offset, call))
            if len(under_way) == AHEAD:
                first, at, answer = under_way.popleft()
                yield first, at, _answer(answer)
        for first, at, answer in under_way:
            yield first, at, _answer(answer)

    def _publish(self, path: str) -> None:
        folder = self.folder / path
        with _locked(folder):
            _answer(self._actor.begin.remote(path))
            listing = self._send(path, folder)
            _answer(self._actor.finish.remote(path))
            with disk_errors(_uncopied(folder)):
                _listing_file(folder).write_bytes(msgspec.json.encode(listing))

    def _send(self, path: str, folder: Path) -> list[FileEntry]:
        """Send the files of ``folder`` to the folder that was begun; return what was sent."""
        with disk_errors(_uncopied(folder)):
            listing = listing_of(folder)
            under_way: deque[Any] = deque()
            for entry, offset in _offsets(listing):
                content = read_piece(folder / entry.name, offset, PIECE)
                under_way.append(self._actor.write.remote(path, entry.name, offset, content))
                if len(under_way) == AHEAD:
                    _answer(under_way.popleft())
            for call in under_way:
                _answer(call)
            _answer(self._actor.arrived.remote(path, listing))
        return listing


def _offsets(listing: Sequence[FileEntry]) -> Iterator[tuple[FileEntry, int]]:
    """Yield where the pieces of each file begin; an empty file has one."""
    for entry in listing:
        for offset in range(0, max(1, entry.size_bytes), PIECE):
            yield entry, offset


def _listing_file(folder: Path) -> Path:
    """Return the file that says of which original the folder is a copy."""
    return folder.parent / f".{folder.name}.json"


def _copied(folder: Path) -> list[FileEntry] | None:
    try:
        return msgspec.json.decode(_listing_file(folder).read_bytes(), type=list[FileEntry])
    except (OSError, msgspec.MsgspecError):
        return None


def _drop(folder: Path) -> None:
    _listing_file(folder).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _drop_older(folder: Path, keep: int) -> None:
    """Keep the ``keep`` newest copies beside ``folder``, and ``folder`` itself."""
    made = {each: _copied_ns(each) for each in folder.parent.iterdir()}
    copies = sorted((each for each in made if made[each]), key=made.__getitem__, reverse=True)
    for old in copies[keep:]:
        if old != folder:
            _drop(old)


def _copied_ns(folder: Path) -> int:
    """Return when a copy was made; 0 if it is none, or if another part has just dropped it."""
    try:
        return _listing_file(folder).stat().st_mtime_ns
    except FileNotFoundError:
        return 0


@contextlib.contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Hold the lock under which this node's parts copy one folder."""
    with (folder.parent / f".{folder.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _uncopied(folder: Path) -> str:
    return f"{folder}: cannot be copied on this node"


def _tried(act: Callable[[], object]) -> object:
    """Repeat ``act`` if a copy turns out damaged, as when the original changed meanwhile."""
    for _ in range(TRIES - 1):
        with contextlib.suppress(TransferError):
            return act()
    return act()


def _answer(call: Any) -> Any:
    """Return the actor's answer; raise its error, or TransferError if it cannot be reached."""
    try:
        return ray.get(call)
    except RayTaskError as error:
        if isinstance(error.cause, CoevolveError):
            raise error.cause from None
        raise TransferError(f"the run's files: {error}") from error
    except RayError as error:
        raise TransferError(
            f"the run's files cannot be reached: {str(error).strip().splitlines()[-1]}"
        ) from error
