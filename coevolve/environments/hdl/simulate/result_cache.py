"""Answers repeated evaluations from the journal instead of simulating again.

A rollout's record holds its testbench's outcome under the hash of everything that the outcome
depends on (toolchain, design, text, seed, limits); a request with the same hash gets that outcome.
Outcomes that exceeded a limit on time or memory are not cached, because they depend on the
machine's load, and infrastructure failures are no outcomes. Equal requests that arrive during a
simulation share it. Stimulus programs are not cached: running one is as fast as a look-up.

The cache lasts as long as the journal's rollouts, which are evicted first (``store.retain_gb``).
"""

import asyncio

import msgspec

from coevolve.environments.hdl.gate.patch import PatchError, apply
from coevolve.environments.hdl.policy.transition import graded_of
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.messages import (
    Evaluate,
    Evaluated,
    Patch,
    Point,
    Stimulus,
    Submission,
    Testbench,
    Unit,
)
from coevolve.environments.hdl.simulate.toolchain import Toolchain
from coevolve.environments.hdl.simulate.verilator import evaluation_key
from coevolve.environments.sdk import rollout_with_outcome
from protocols.interfaces import Reader


class RecallingSimulator:
    """A `TestbenchSimulator` that looks up results in the journal first."""

    def __init__(self, simulator: TestbenchSimulator, reader: Reader, toolchain: Toolchain) -> None:
        """Cache the answers of ``simulator``, which uses ``toolchain``."""
        self._simulator = simulator
        self._reader = reader
        self._toolchain = toolchain
        self._under_way: dict[str, asyncio.Task[Evaluated]] = {}

    async def evaluate(self, request: Evaluate) -> Evaluated:
        """Return the grade of one submission; ``cached`` says whether it comes from the cache."""
        text = _text(request.submission)
        if text is None:
            return await self._simulator.evaluate(request)
        key = evaluation_key(self._toolchain, request, text)
        known = await self._known(key, request)
        if known is not None:
            return known
        shared = self._under_way.get(key)
        if shared is not None:
            return msgspec.structs.replace(await asyncio.shield(shared), stages=(), cached=True)
        task = asyncio.create_task(self._simulator.evaluate(request))
        self._under_way[key] = task
        task.add_done_callback(lambda _: self._under_way.pop(key, None))
        return await asyncio.shield(task)

    async def points(self, unit: Unit) -> tuple[Point, ...]:
        return await self._simulator.points(unit)

    async def _known(self, key: str, request: Evaluate) -> Evaluated | None:
        found = await rollout_with_outcome(self._reader, key)
        if found is None:
            return None
        graded = graded_of(found)
        assert graded is not None, "only rollouts with a testbench are in this index"
        return Evaluated(
            key=key,
            testbench=graded.testbench,
            outcome=graded.outcome,
            seed=request.seed,
            stages=(),
            toolchain=self._toolchain.identity,
            sandbox=None,
            cached=True,
        )


def _text(submission: Submission) -> str | None:
    """Return the testbench of a submission; None if it has none, or is not cached."""
    match submission:
        case Testbench(text=text):
            return text
        case Patch(text=patch, base=base):
            try:
                return apply(base, patch)
            except PatchError:
                return None
        case Stimulus():
            return None
