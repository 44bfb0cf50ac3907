"""The run's folder as a Ray actor, on the node that has it; it only forwards calls."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray

from actors.remote_files import FILES_NAME
from coevolve.parts.files import FileEntry, SentFolders
from coevolve.parts.privacy import keep_private
from coevolve.parts.status import StatusReporter
from protocols.control import PartStatus

THREADS = 8


class FilesShell:
    """Forwards to the run's folder; runs on the node that has it."""

    def __init__(self, root: Path, model: Path | None) -> None:
        keep_private()
        self._folders = SentFolders(root, model)
        self._reporter = StatusReporter(FILES_NAME)
        self._reporter.waits_for("requests")

    def listing(self, path: str) -> list[FileEntry]:
        """Forward."""
        return self._folders.listing(path)

    def read(self, path: str, name: str, offset: int, size: int) -> bytes:
        return self._folders.read(path, name, offset, size)

    def begin(self, path: str) -> None:
        self._folders.begin(path)

    def write(self, path: str, name: str, offset: int, content: bytes) -> None:
        self._folders.write(path, name, offset, content)

    def arrived(self, path: str, listing: Sequence[FileEntry]) -> None:
        """Forward."""
        self._folders.arrived(path, listing)

    def finish(self, path: str) -> list[FileEntry]:
        """Forward."""
        return self._folders.finish(path)

    def names(self, path: str) -> list[str]:
        return self._folders.names(path)

    def remove(self, path: str) -> None:
        self._folders.remove(path)

    def status(self) -> PartStatus:
        """Return the status; ``done`` is not counted."""
        return self._reporter.report(mailbox=0)

    def cpu_s(self) -> float:
        """Return 0: it runs neither a model nor a simulator."""
        return 0.0

    def log(self, part: str, line: str) -> None:
        """Forward."""
        self._folders.log(part, line)


_remote: Any = ray.remote
"""Ray's types leave out ``max_concurrency``."""

FilesActor = _remote(num_cpus=0, max_restarts=-1, max_task_retries=-1, max_concurrency=THREADS)(
    FilesShell
)
