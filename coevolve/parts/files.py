"""The run's folder for parts on the node that has it, and what copies between nodes are made of."""

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Generator, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated

import msgspec

from coevolve.models.atomic_folder import (
    begin_folder,
    files_in,
    finish_folder,
    folder_digest,
    folder_size,
    partial_of,
    write_folder,
)
from coevolve.models.weight_files import file_digest
from coevolve.parts.logs import BoundedFile, log_file
from protocols.errors import TransferError

MODEL_COPY = "initial_model"
"""The folder of copies that holds the model which the run starts from."""

REFUSED = "the run's folder cannot take it in"


class FileEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a folder. Raises ValueError for a name that leaves the folder.

    Others write such entries: nodes of a cluster, and whoever can write to a place of copies.
    """

    name: str
    """Path relative to the folder."""

    size_bytes: int
    digest: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    """SHA-256, in hexadecimal."""

    def __post_init__(self) -> None:
        path = PurePosixPath(self.name)
        if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in self.name:
            raise ValueError(f"needs the name of a file in its folder, found {self.name!r}")


class LocalFiles:
    """A `protocols.interfaces.Files` on the node that has the run's folder: copies nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def fetch(self, path: str, *, keep: int = 0) -> Path:
        """Return the folder."""
        return self.fetch_now(path, keep=keep)

    def fetch_now(self, path: str, *, keep: int = 0) -> Path:
        """Return the folder."""
        del keep
        return self.folder / path

    def assemble(self, path: str, write: Callable[[Path], None]) -> tuple[str, int]:
        """Make the folder; return its digest and its size in bytes. Raises CheckpointError."""
        folder = self.folder / path
        write_folder(folder, write)
        return folder_digest(folder), folder_size(folder)

    def contribute(self, path: str, write: Callable[[Path], None]) -> None:
        """Let ``write`` write files into the folder that is assembled."""
        write(partial_of(self.folder / path))

    async def publish(self, path: str) -> None:
        """Do nothing: the folder is where it belongs."""

    async def names(self, path: str) -> Sequence[str]:
        return names(self.folder / path)

    async def remove(self, path: str) -> None:
        await asyncio.to_thread(shutil.rmtree, self.folder / path, ignore_errors=True)


def names(folder: Path) -> list[str]:
    """Return the names in a folder; none if there is no such folder."""
    return sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []


class SentFolders:
    """Lists and reads folders for other nodes, and takes in folders that other nodes send."""

    def __init__(self, root: Path, model: Path | None) -> None:
        """Serve the run's folder ``root``; ``model`` is served as the folder ``MODEL_COPY``."""
        self._root = root
        self._model = model
        self._digests: dict[tuple[Path, int, int], str] = {}
        """Digests of files, by `_content`."""

        self._arrived: dict[str, dict[str, FileEntry]] = {}
        """Files of folders that are taken in, unchanged, by path and name."""

    def listing(self, path: str) -> list[FileEntry]:
        """Return the files of a folder. Raises TransferError if there is no such folder."""
        folder = self._folder(path)
        with disk_errors(f"{path}: cannot be sent to other nodes"):
            if not folder.is_dir():
                raise FileNotFoundError(f"{folder}: is not there")
            return [self._entry(folder, each) for each in files_in(folder)]

    def read(self, path: str, name: str, offset: int, size: int) -> bytes:
        """Return up to ``size`` bytes of a file from ``offset``. Raises TransferError."""
        with disk_errors(f"{path}/{name}: cannot be sent"):
            return read_piece(self._folder(path) / name, offset, size)

    def begin(self, path: str) -> None:
        """Begin to take in a folder; what an earlier sender left is discarded."""
        self._arrived[path] = {}
        with disk_errors(f"{path}: {REFUSED}"):
            begin_folder(self._folder(path))

    def write(self, path: str, name: str, offset: int, content: bytes) -> None:
        """Write a piece of a file of the folder that is taken in."""
        with disk_errors(f"{path}: {REFUSED}"):
            write_piece(partial_of(self._folder(path)) / name, offset, content)

    def arrived(self, path: str, listing: Sequence[FileEntry]) -> None:
        """Raise TransferError unless these files are as their sender has them."""
        with disk_errors(f"{path}: {REFUSED}"):
            check(partial_of(self._folder(path)), listing)
        self._arrived.setdefault(path, {}).update((each.name, each) for each in listing)

    def finish(self, path: str) -> list[FileEntry]:
        """Publish the folder with all that was written into it; return its files."""
        folder = self._folder(path)
        with disk_errors(f"{path}: {REFUSED}"):
            finish_folder(folder)
            for each in self._arrived.pop(path, {}).values():
                self._digests[_content(folder / each.name)] = each.digest
        return self.listing(path)

    def names(self, path: str) -> list[str]:
        """Return the names in a folder; none if there is no such folder."""
        return names(self._folder(path))

    def remove(self, path: str) -> None:
        """Remove a folder, if it is there."""
        shutil.rmtree(self._folder(path), ignore_errors=True)

    def log(self, part: str, line: str) -> None:
        """Append a line to a part's log."""
        with contextlib.closing(BoundedFile(log_file(self._root, part))) as file:
            file.write(line)

    def _folder(self, path: str) -> Path:
        if path == MODEL_COPY and self._model is not None:
            return self._model
        folder = (self._root / path).resolve()
        if not folder.is_relative_to(self._root.resolve()):
            raise TransferError(f"{path}: is outside the run's folder")
        return folder

    def _entry(self, folder: Path, file: Path) -> FileEntry:
        content = _content(file)
        if content not in self._digests:
            self._digests[content] = file_digest(file)
        name = str(file.relative_to(folder))
        return FileEntry(name=name, size_bytes=content[1], digest=self._digests[content])


def _content(file: Path) -> tuple[Path, int, int]:
    """Return what tells a file's content apart: path, size in bytes, time of change in ns."""
    stat = file.stat()
    return file, stat.st_size, stat.st_mtime_ns


@contextlib.contextmanager
def disk_errors(what: str) -> Generator[None]:
    """Raise TransferError, with ``what`` cannot be done, for errors of this node's disk."""
    try:
        yield
    except OSError as error:
        raise TransferError(f"{what}: {error}") from error


def read_piece(file: Path, offset: int, size: int) -> bytes:
    """Return up to ``size`` bytes of a file from ``offset``. Raises OSError."""
    with file.open("rb") as read:
        read.seek(offset)
        return read.read(size)


def write_piece(file: Path, offset: int, content: bytes) -> None:
    """Write a piece of a file, which is created if necessary. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("r+b" if file.exists() else "w+b") as written:
        written.seek(offset)
        written.write(content)


def check(folder: Path, listing: Sequence[FileEntry]) -> None:
    """Raise TransferError unless the folder has the listed files, unchanged. Raises OSError."""
    wrong = [each.name for each in listing if not _is_unchanged(folder, each)]
    if wrong:
        raise TransferError(f"{folder}: a copy differs from its original in {wrong}")


def _is_unchanged(folder: Path, entry: FileEntry) -> bool:
    file = folder / entry.name
    return file.is_file() and file_digest(file) == entry.digest


def listing_of(folder: Path) -> list[FileEntry]:
    """Return the files of a folder, with digests. Raises OSError."""
    return SentFolders(folder.parent, None).listing(folder.name)
