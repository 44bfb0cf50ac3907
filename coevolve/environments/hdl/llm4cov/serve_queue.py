"""Serves LLM4Cov's file-drop queue, for the command ``coevolve hdl serve-queue``."""

import asyncio
import contextlib
import signal
import sys
from pathlib import Path

from coevolve.environments.hdl.llm4cov.answer import answer
from coevolve.environments.hdl.llm4cov.job import Job, from_manifest
from coevolve.environments.hdl.llm4cov.queue import DropFolder
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.summary import failure
from coevolve.environments.hdl.simulate.verilator import open_simulator
from coevolve.environments.sdk import boundary
from protocols.errors import CoevolveError, ConfigError, RunError


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
