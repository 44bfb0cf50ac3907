"""Serves LLM4Cov's file-drop queue, for the command ``coevolve hdl serve-queue``.

A client fills ``incoming/<job>.staging`` with ``inputs/*`` and ``manifest.json`` and renames it to
``incoming/<job>``. A worker writes ``results/<job>/result.json``, then ``.done``, and removes the
incoming folder. The client reads the answer and removes the rest. Any number of workers in any
number of processes on one machine can share a folder.

Guarantees: every job that was renamed into place is answered, by one worker at a time. A worker
holds a job by a kernel lock on ``claims/<job>.lock``, which ends with its process, so the next
worker takes a job whose worker was killed. An invalid manifest, or inputs with another hash, are
answered with an ``exception``. No content or name of a job can lead outside of the folder: a link
in the place of its result folder is removed, one in the place of its lock keeps it from being
answered, and the server ends where ``incoming``, ``results`` or ``claims`` itself is a link. Locks
do not work over network file systems, so all workers have to run on one machine.
"""

import asyncio
import contextlib
import fcntl
import os
import re
import signal
import sys
from collections.abc import Generator
from pathlib import Path

import msgspec

from coevolve.environments.hdl.llm4cov import confined
from coevolve.environments.hdl.llm4cov.answer import answer
from coevolve.environments.hdl.llm4cov.job import Job, from_manifest
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.summary import failure
from coevolve.environments.hdl.simulate.verilator import open_simulator
from coevolve.environments.sdk import boundary
from protocols.errors import CoevolveError, ConfigError, RunError

FOLDERS = ("incoming", "results", "claims")

_JOB = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}\Z")
_STAGING = ".staging"


class DropFolder:
    """The queue's folder. Its parts are held open while they are used, and never followed."""

    def __init__(self, root: Path) -> None:
        """Make the missing folders. Raises OSError, and RunError if one of them is a link."""
        self.root = root
        for name in FOLDERS:
            if not (root / name).is_symlink():
                (root / name).mkdir(parents=True, exist_ok=True)
        self._check()

    def waiting(self) -> list[str]:
        """Return the jobs without an answer, oldest first; other workers may hold some of them.

        Raises OSError, and RunError if one of the folders is a link.
        """
        self._check()
        found: list[tuple[int, str]] = []
        with self._part("incoming") as incoming, os.scandir(incoming) as entries:
            for entry in entries:
                if self._open(entry.name):
                    with contextlib.suppress(FileNotFoundError):
                        found.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.name))
        return [name for _, name in sorted(found)]

    @contextlib.contextmanager
    def inputs(self, job_id: str) -> Generator[int]:
        """Hold the incoming folder of a job. Raises OSError, also if it is a link."""
        with self._part("incoming") as incoming, confined.folder(job_id, inside=incoming) as job:
            yield job

    @contextlib.contextmanager
    def claim(self, job_id: str) -> Generator[bool]:
        """Hold a job; yields False if another worker holds it, or it is answered already.

        Raises OSError if something else is in the place of its lock.
        """
        with self._part("claims") as claims:
            name = f"{job_id}.lock"
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            lock = os.open(name, flags, 0o644, dir_fd=claims)
            held = False
            try:
                held = _lock(lock, name, claims)
                yield held and self._open(job_id) and self._came(job_id)
            finally:
                if held:
                    with contextlib.suppress(OSError):  # closing it ends the lock in any case
                        os.unlink(name, dir_fd=claims)
                os.close(lock)

    def finish(self, job_id: str, answer: dict[str, object]) -> None:
        """Write the answer, then remove the job. Raises OSError if the answer cannot be written."""
        with self._part("results") as results:
            confined.make_folder(job_id, inside=results)
            with confined.folder(job_id, inside=results) as result:
                confined.write(result, "result.json", msgspec.json.encode(answer))
                confined.write(result, ".done", b"")
        with self._part("incoming") as incoming:
            confined.remove(job_id, inside=incoming)

    def _check(self) -> None:
        for place in (self.root / name for name in FOLDERS):
            if place.is_symlink() or not place.is_dir():
                found = "a link" if place.is_symlink() else "no folder"
                raise RunError(
                    f"{place}: the queue needs a folder here and follows no link, found {found}; "
                    "remove it and start the server again, which makes the folder"
                )

    def _part(self, name: str) -> contextlib.AbstractContextManager[int]:
        return confined.folder(self.root / name)

    def _open(self, job_id: str) -> bool:
        """Return whether a name is that of a job without an answer."""
        if not _JOB.match(job_id) or job_id.endswith(_STAGING):
            return False
        with self._part("results") as results:
            try:
                with confined.folder(job_id, inside=results) as result:
                    return not confined.exists(".done", inside=result)
            except OSError:  # there is none, or a link in its place
                return True

    def _came(self, job_id: str) -> bool:
        with self._part("incoming") as incoming:
            return confined.exists(job_id, inside=incoming)


def _lock(lock: int, name: str, claims: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The last holder may have removed the file since it was opened here.
        return os.path.samestat(os.fstat(lock), os.stat(name, dir_fd=claims, follow_symlinks=False))
    except (BlockingIOError, FileNotFoundError):
        return False


def serve_folder(folder: Path, workers: int) -> None:
    """Serve until interrupted. Raises CoevolveError where the simulator cannot be used."""
    try:
        asyncio.run(_serve(folder, workers))
    except OSError as error:
        raise RunError(f"{folder}: cannot be served: {error}") from error


async def _serve(folder: Path, workers: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stopped(number: int) -> None:
        stop.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped, number)
    queue = DropFolder(folder)
    simulator = open_simulator()
    sys.stderr.write(f"coevolve: serving {folder} with {workers} workers\n")
    await serve(queue, simulator, workers=workers, stop=stop)


WAIT_S = 0.5


async def serve(
    queue: DropFolder,
    simulator: TestbenchSimulator,
    *,
    workers: int,
    stop: asyncio.Event,
    wait_s: float = WAIT_S,
) -> None:
    """Answer jobs until ``stop`` is set; running evaluations finish and are still answered.

    Raises OSError or RunError if the queue's folder cannot be used.
    """
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(_work(queue, simulator, stop, wait_s))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _work(
    queue: DropFolder, simulator: TestbenchSimulator, stop: asyncio.Event, wait_s: float
) -> None:
    refused = set[str]()
    while not stop.is_set():
        if not await _next(queue, simulator, refused):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await stop.wait()


async def _next(queue: DropFolder, simulator: TestbenchSimulator, refused: set[str]) -> bool:
    """Answer one job; return False if there is none to take."""
    for job_id in queue.waiting():
        if job_id in refused:
            continue
        try:
            with boundary(RunError, f"job {job_id} cannot be answered"):
                if await _answered(queue, simulator, job_id):
                    return True
        except CoevolveError as error:
            # A full disk or a planted link: the job stays, for another worker.
            refused.add(job_id)
            sys.stderr.write(f"coevolve: {error}\n")
    return False


async def _answered(queue: DropFolder, simulator: TestbenchSimulator, job_id: str) -> bool:
    """Answer a job, unless another worker holds it; return whether it was answered here."""
    with queue.claim(job_id) as held:
        if held:
            found = await _answer_job(queue, simulator, job_id)
            await asyncio.to_thread(queue.finish, job_id, found)
        return held


async def _answer_job(
    queue: DropFolder, simulator: TestbenchSimulator, job_id: str
) -> dict[str, object]:
    try:
        job = await asyncio.to_thread(_job, queue, job_id)
    except ConfigError as error:
        return failure(str(error))
    return {"job_id": job_id, **await answer(simulator, job)}


def _job(queue: DropFolder, job_id: str) -> Job:
    """Read a job. Raises ConfigError."""
    what = "the job's folder cannot be read"
    with boundary(ConfigError, what), queue.inputs(job_id) as folder:
        return from_manifest(folder, job_id)
