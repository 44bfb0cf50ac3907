"""LLM4Cov's file-drop queue: jobs arrive as folders, and answers leave as files.

A client fills ``incoming/<job>.staging`` with ``inputs/*`` and ``manifest.json`` and renames it to
``incoming/<job>``. A worker writes ``results/<job>/result.json``, then ``.done``, and removes the
incoming folder. The client reads the answer and removes the rest. Any number of workers in any
number of processes on one machine can share a folder.

Guarantees: every job that was renamed into place is answered, by one worker at a time. A worker
holds a job by a kernel lock on ``claims/<job>.lock``, which ends with its process, so the next
worker takes a job whose worker was killed. An invalid manifest, or inputs with another hash, are
answered with an ``exception``. No content or name of a job can lead outside of the folder: a link
in the place of its result folder is removed. Locks do not work over network file systems, so all
workers have to run on one machine.
"""

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Generator
from pathlib import Path

import msgspec

from coevolve.environments.hdl.llm4cov import confined

FOLDERS = ("incoming", "results", "claims")

_JOB = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}\Z")
_STAGING = ".staging"


class DropFolder:
    """The queue's folder."""

    def __init__(self, root: Path) -> None:
        """Make the missing folders. Raises OSError."""
        self.root = root
        for name in FOLDERS:
            (root / name).mkdir(parents=True, exist_ok=True)

    def waiting(self) -> list[str]:
        """Return the jobs without an answer, oldest first; other workers may hold some of them."""
        found: list[tuple[int, str]] = []
        with os.scandir(self.root / "incoming") as entries:
            for entry in entries:
                if self._open(entry.name):
                    with contextlib.suppress(FileNotFoundError):
                        found.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.name))
        return [name for _, name in sorted(found)]

    def _open(self, job_id: str) -> bool:
        if not _JOB.match(job_id) or job_id.endswith(_STAGING):
            return False
        result = self.root / "results" / job_id
        return result.is_symlink() or not os.path.lexists(result / ".done")

    def inputs(self, job_id: str) -> Path:
        """Return the incoming folder of a job."""
        return self.root / "incoming" / job_id

    @contextlib.contextmanager
    def claim(self, job_id: str) -> Generator[bool]:
        """Hold a job; yields False if another worker holds it, or it is answered already."""
        with confined.folder(self.root / "claims") as claims:
            name = f"{job_id}.lock"
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            lock = os.open(name, flags, 0o644, dir_fd=claims)
            try:
                held = _lock(lock, name, claims)
                yield held and self._open(job_id) and os.path.lexists(self.inputs(job_id))
                if held:
                    os.unlink(name, dir_fd=claims)
            finally:
                os.close(lock)

    def finish(self, job_id: str, answer: dict[str, object]) -> None:
        """Write the answer, then remove the job. Raises OSError if the answer cannot be written."""
        with confined.folder(self.root / "results") as results:
            confined.make_folder(job_id, inside=results)
            with confined.folder(job_id, inside=results) as result:
                confined.write(result, "result.json", msgspec.json.encode(answer))
                confined.write(result, ".done", b"")
        came = self.inputs(job_id)
        if came.is_symlink() or not came.is_dir():
            came.unlink(missing_ok=True)
        else:
            shutil.rmtree(came, ignore_errors=True)


def _lock(lock: int, name: str, claims: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The last holder may have removed the file since it was opened here.
        return os.path.samestat(os.fstat(lock), os.stat(name, dir_fd=claims, follow_symlinks=False))
    except (BlockingIOError, FileNotFoundError):
        return False
