"""Measures an evaluation that the journal answers, as in a run (`hdl.simulate.result_cache`).

The journal has one rollout. A process that does not write it reads the memory-mapped file.
"""

import tempfile
import time
from pathlib import Path
from statistics import median

from coevolve.environments.hdl.policy.transition import Graded
from coevolve.environments.hdl.simulate.messages import Evaluate, Evaluated
from coevolve.environments.hdl.simulate.result_cache import RecallingSimulator
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator
from coevolve.journal.codec import encode
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.reader import JournalReader
from protocols import columns
from protocols.errors import SimulatorError
from protocols.journal import Append, Receipt
from protocols.rollouts import Rollout, Tokens
from protocols.tasks import body_of

ASKS = 200
MAP_BYTES = 1 << 26


async def recalled_ms(
    simulator: VerilatorSimulator, request: Evaluate, evaluated: Evaluated
) -> float:
    """Return the median milliseconds of wall clock from the request to its answer.

    Raises SimulatorError if an answer did not come from the journal.
    """
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal.open(Path(folder), map_size_bytes=MAP_BYTES)
        records = (encode(_rollout(evaluated)),)
        receipt = Receipt(producer="bench", counter=1)
        await LocalStore(journal).append(Append(records=records, receipt=receipt))
        journal.close()
        reader = JournalReader(Path(folder))
        recalling = RecallingSimulator(simulator, reader, simulator.toolchain)
        taken = [await _asked_s(recalling, request) for _ in range(ASKS)]
    return 1000 * median(taken)


async def _asked_s(recalling: RecallingSimulator, request: Evaluate) -> float:
    started = time.perf_counter()
    answer = await recalling.evaluate(request)
    taken = time.perf_counter() - started
    if not answer.cached:
        raise SimulatorError(f"key {answer.key}: needs to be answered from the journal, was not")
    return taken


def _rollout(evaluated: Evaluated) -> Rollout:
    """Return a rollout with the testbench; its other fields do not matter."""
    nothing = Tokens(
        token_ids=columns.int32([]),
        mask=columns.uint8([]),
        logprobs=columns.float32([]),
        versions=columns.int32([]),
    )
    return Rollout(
        group_id="g0",
        group=0,
        index=0,
        group_size=1,
        task_id="bench",
        seed=0,
        tokens=nothing,
        actions=(),
        turns_passed=1,
        turns_total=1,
        reward=evaluated.reward,
        version_min=0,
        version_max=0,
        ended="finished",
        wall_s=0.0,
        outcome=body_of(
            Graded(testbench=evaluated.testbench, outcome=evaluated.outcome, key=evaluated.key)
        ),
        outcome_key=evaluated.key,
    )
