"""Workers of a file-drop queue.

A worker takes the oldest job that nobody holds, answers it, and looks again. If there is none, it
waits for `WAIT_S`, or until it has to stop, and then lists the folder again. So an idle worker
finds a job after at most that time, at the cost of one listing each time. The kernel's notification
of changes is not used, because it does not work over network file systems.
"""

import asyncio
import contextlib
import sys

from coevolve.environments.hdl.llm4cov.answer import answer
from coevolve.environments.hdl.llm4cov.job import from_manifest
from coevolve.environments.hdl.llm4cov.queue import DropFolder
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.summary import failure
from protocols.errors import ConfigError

WAIT_S = 0.5


async def serve(
    queue: DropFolder,
    simulator: TestbenchSimulator,
    *,
    workers: int,
    stop: asyncio.Event,
    wait_s: float = WAIT_S,
) -> None:
    """Answer jobs until ``stop`` is set; running evaluations finish and are still answered."""
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(_work(queue, simulator, stop, wait_s))


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
        with queue.claim(job_id) as held:
            if held:
                try:
                    found = await _answer_job(queue, simulator, job_id)
                    await asyncio.to_thread(queue.finish, job_id, found)
                except OSError as error:
                    # A full disk or a planted link: the job stays, for another worker.
                    refused.add(job_id)
                    sys.stderr.write(f"coevolve: job {job_id} cannot be answered: {error}\n")
                return True
    return False


async def _answer_job(
    queue: DropFolder, simulator: TestbenchSimulator, job_id: str
) -> dict[str, object]:
    try:
        job = await asyncio.to_thread(from_manifest, queue.inputs(job_id), job_id)
    except ConfigError as error:
        return failure(str(error))
    return {"job_id": job_id, **await answer(simulator, job)}
