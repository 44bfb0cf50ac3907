"""Evaluates a job of an LLM4Cov client, and answers in their words alone.

Whatever the testbench is to blame for is told by status; a machine's failure and a design that does
not compile by itself are an ``exception``, after `TRIES` where trying again can help.
"""

import sys

from coevolve.environments.hdl.llm4cov.job import TESTBENCH_FILE, Job
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.messages import Covered
from coevolve.environments.hdl.simulate.summary import failure, response
from protocols.errors import CoevolveError, SimulatorError

TRIES = 3


async def answer(simulator: TestbenchSimulator, job: Job) -> dict[str, object]:
    """Return the strict answer; raises nothing that this project raises on purpose."""
    reason = ""
    for left in reversed(range(TRIES)):
        try:
            return await _tried(simulator, job)
        except SimulatorError as error:
            sys.stderr.write(f"coevolve: {job.unit.name}: {error}; tries left: {left}\n")
            reason = str(error)
        except CoevolveError as error:
            return failure(str(error))
    return failure(reason)


async def _tried(simulator: TestbenchSimulator, job: Job) -> dict[str, object]:
    evaluated = await simulator.evaluate(job.request)
    points = await simulator.points(job.unit) if isinstance(evaluated.outcome, Covered) else ()
    found = response(evaluated, job.unit, points, detail_limit=job.detail_limit, strict=True)
    # The client knows the testbench by a name of its own.
    words = str(found["err_msg"]).replace(f"{TESTBENCH_FILE}:", f"{job.testbench_file}:")
    return found | {"err_msg": words}
