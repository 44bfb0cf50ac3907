"""The copies of one run, in a folder at any place that fsspec reaches.

The folder is ``store.copies``/NAME, with the run's name:

    copies/000007.json    a manifest: the files of copy 7, with their sizes and digests
    files/DIGEST          a file of one or more copies

Guarantees:

- A copy is complete or absent. Its manifest is written last, and a manifest that cannot be read, as
  a killed process may leave one, is no copy.
- A file is sent once. It counts as sent if a manifest lists it or this process sent it, and if it
  has the right size. So whatever a killed process left half-written is sent again.
- A file that differs from its digest is named when it is fetched, and is not used.
- A process adds no copy after the run was resumed elsewhere and copied from there.
"""

# fsspec has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import contextlib
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, cast

import fsspec.core
import msgspec
import structlog

from coevolve.models.weight_files import file_digest
from coevolve.parts.files import FileEntry
from protocols.errors import CopyError, DependencyError

KEPT = 2
"""Copies that stay: the newest, and one in case that it is damaged."""

COPIES, FILES = "copies", "files"
"""Names of the folders with the manifests and with the files."""

MOST_BYTES = 64 << 20
"""Maximum bytes of a manifest, which names each file of a run in some hundred bytes."""

TRIAL = "trial"
"""Name of a file that shows whether the place can be written; the next copy removes a left one."""

log = structlog.get_logger()


class CopyManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`copies/N.json`: one copy of a run."""

    number: int
    """Counted from 1; the newest copy has the highest number."""

    run_id: str
    step: int
    """The learner's last step in the copy."""

    records: int
    """Sequence of the last record in the copy's journal."""

    resumes: int
    """How often the run was resumed before; a resumed run replaces every process before it."""

    made_ns: int
    """Unix time at which the journal was copied."""

    files: tuple[FileEntry, ...]
    """The files of the run's folder."""


class CopyFolder:
    """The folder with the copies of the run ``name`` below ``url``; use it from one thread."""

    def __init__(self, url: str, name: str) -> None:
        """Raises DependencyError if a package for ``url`` is not installed."""
        self.url = f"{url.rstrip('/')}/{name}"
        self._system, self._root = _opened(self.url)
        self._sent: set[str] = set()
        """Digests of the files that this process sent."""

    def manifests(self) -> list[CopyManifest]:
        """Return all complete copies, newest first. Raises CopyError."""
        with self._explained("cannot be listed"):
            found = [self._manifest(name) for name in self._listed(COPIES)]
        copies = [each for each in found if each is not None]
        return sorted(copies, key=lambda each: each.number, reverse=True)

    def add(self, copy: CopyManifest, folder: Path) -> int:
        """Send the copy's files from ``folder``; then remove old copies. Return the bytes sent.

        Raises CopyError, and the copy is then absent.
        """
        earlier = self.manifests()
        self._check_newest(copy, earlier)
        with self._explained(f"copy {copy.number} was not made"):
            sent = self._send(copy, earlier, folder)
            self._system.makedirs(self._path(COPIES), exist_ok=True)
            manifest = self._path(COPIES, _manifest_name(copy))
            self._system.pipe_file(manifest, msgspec.json.encode(copy))
        with self._explained("old copies cannot be removed"):
            self._prune([copy, *earlier][:KEPT])
        return sent

    def try_writing(self) -> None:
        """Write a file and remove it. Raises CopyError if the place cannot be written."""
        with self._explained("cannot be written"):
            self._system.makedirs(self._path(FILES), exist_ok=True)
            self._system.pipe_file(self._path(FILES, TRIAL), TRIAL.encode())
            self._system.rm_file(self._path(FILES, TRIAL))

    def fetch(self, copy: CopyManifest, folder: Path) -> None:
        """Write the copy's files into ``folder``. Raises CopyError if one is missing or damaged."""
        for entry in copy.files:
            place = folder / entry.name
            place.parent.mkdir(parents=True, exist_ok=True)
            with self._explained(f"{entry.name} of copy {copy.number} cannot be fetched"):
                self._system.get_file(self._path(FILES, entry.digest), str(place))
            found = file_digest(place)
            if found != entry.digest:
                raise CopyError(
                    f"{self.url}: {entry.name} of copy {copy.number} was changed: its digest is "
                    f"{found[:12]}, the copy says {entry.digest[:12]}"
                )

    def _check_newest(self, copy: CopyManifest, earlier: Sequence[CopyManifest]) -> None:
        later = [each for each in earlier if each.resumes > copy.resumes]
        if later:
            raise CopyError(
                f"{self.url}: copy {later[0].number} was made by a process that resumed this run "
                "later; stop one of the two, or give this one another store.copies"
            )

    def _send(self, copy: CopyManifest, earlier: Sequence[CopyManifest], folder: Path) -> int:
        self._system.makedirs(self._path(FILES), exist_ok=True)
        trusted = self._sent | {each.digest for copy in earlier for each in copy.files}
        there = self._listed(FILES)
        sent = 0
        for entry in copy.files:
            if entry.digest in trusted and there.get(entry.digest) == entry.size_bytes:
                continue
            self._system.put_file(str(folder / entry.name), self._path(FILES, entry.digest))
            self._sent.add(entry.digest)
            there[entry.digest] = entry.size_bytes
            sent += entry.size_bytes
        return sent

    def _prune(self, kept: Sequence[CopyManifest]) -> None:
        """Remove all other manifests, and then the files that no kept copy has."""
        for name in self._listed(COPIES).keys() - set(map(_manifest_name, kept)):
            self._system.rm_file(self._path(COPIES, name))
        for name in self._listed(FILES).keys() - {e.digest for each in kept for e in each.files}:
            self._system.rm_file(self._path(FILES, name))

    def _listed(self, folder: str) -> dict[str, int]:
        """Return name -> size in bytes of the files in a folder; none if there is no folder."""
        self._system.invalidate_cache()
        try:
            found = cast("list[dict[str, Any]]", self._system.ls(self._path(folder), detail=True))
        except FileNotFoundError:
            return {}
        files = (each for each in found if each["type"] == "file")
        return {each["name"].rpartition("/")[2]: each["size"] for each in files}

    def _manifest(self, name: str) -> CopyManifest | None:
        try:
            # What is cut off makes it unreadable.
            content = self._system.cat_file(self._path(COPIES, name), end=MOST_BYTES)
            return msgspec.json.decode(content, type=CopyManifest)
        except msgspec.MsgspecError as error:
            place = f"{self.url}/{COPIES}/{name}"
            log.warning("unreadable_copy_ignored", copy=place, reason=str(error))
            return None

    def _path(self, *names: str) -> str:
        return "/".join((self._root, *names))

    @contextlib.contextmanager
    def _explained(self, what: str) -> Generator[None]:
        """Raise CopyError for an error of the place; each kind of place has its own errors."""
        try:
            yield
        except CopyError:
            raise
        except Exception as error:
            raise CopyError(f"{self.url}: {what}: {type(error).__name__}: {error}") from error


def _manifest_name(copy: CopyManifest) -> str:
    return f"{copy.number:06d}.json"


def _opened(url: str) -> tuple[Any, str]:
    try:
        return fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise DependencyError(
            f"store.copies: {url} needs a package that is not installed: {error}"
        ) from error
    except ValueError as error:
        raise DependencyError(
            f"store.copies: needs a path or a URL that fsspec knows, such as s3://BUCKET/FOLDER, "
            f"found {url!r}: {error}"
        ) from error


def check_place(url: str, name: str) -> None:
    """Check that the run ``name`` can be copied to ``url``, or has been.

    Raises DependencyError if a package is missing or the place cannot be listed.
    """
    try:
        CopyFolder(url, name).manifests()
    except CopyError as error:
        raise DependencyError(_refused(error)) from error


def claim(url: str, name: str, run_id: str) -> None:
    """Check that the place has no copies of another run of this name, and can take a first copy.

    A place that has copies of this run may be full for a while. Raises CopyError.
    """
    folder = CopyFolder(url, name)
    copies = folder.manifests()
    others = [each for each in copies if each.run_id != run_id]
    if others:
        raise CopyError(
            f"{folder.url}: has copies of another run, {others[0].run_id}, and needs to be empty "
            "or this run's; give another name or another store.copies, or remove that folder"
        )
    if not copies:
        try:
            folder.try_writing()
        except CopyError as error:
            raise CopyError(_refused(error)) from error


def _refused(error: CopyError) -> str:
    return f"store.copies: {error}; give another place, or leave it empty"
