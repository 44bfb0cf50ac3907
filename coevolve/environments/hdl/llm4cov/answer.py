"""Evaluates a job of an LLM4Cov client, and answers with LLM4Cov's own fields and statuses.

The status names a failure that the testbench caused. An infrastructure failure, or a design that
does not compile by itself, is an ``exception``; infrastructure failures are tried `TRIES` times.
"""

import sys

from coevolve.environments.hdl.llm4cov.job import TESTBENCH_FILE, Job
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.messages import Covered
from coevolve.environments.hdl.simulate.summary import failure, response
from protocols.errors import CoevolveError, SimulatorError

TRIES = 3


async def answer(simulator: TestbenchSimulator, job: Job) -> dict[str, object]:
    """Return the strict answer. Never raises CoevolveError."""
    reason = ""
    for left in reversed(range(TRIES)):
        try:
            return await _evaluate(simulator, job)
        except SimulatorError as error:
            sys.stderr.write(f"coevolve: {job.unit.name}: {error}; tries left: {left}\n")
            reason = str(error)
        except CoevolveError as error:
            return failure(str(error))
    return failure(reason)


async def _evaluate(simulator: TestbenchSimulator, job: Job) -> dict[str, object]:
    evaluated = await simulator.evaluate(job.request)
    points = await simulator.points(job.unit) if isinstance(evaluated.outcome, Covered) else ()
    found = response(evaluated, job.unit, points, detail_limit=job.detail_limit, strict=True)
    # The client has its own name for the testbench's file.
    words = str(found["err_msg"]).replace(f"{TESTBENCH_FILE}:", f"{job.testbench_file}:")
    return found | {"err_msg": words}
