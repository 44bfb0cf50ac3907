"""Which share of a design's mutants each of several testbenches kills."""

import asyncio
import os
from collections.abc import Mapping, Sequence

from coevolve.hdl.mutants import Bugs, killed
from coevolve.hdl.output_trace import OutputTracer
from protocols.designs import Design
from protocols.hardware import SimulationLimits
from protocols.transitions import Graded, coverage_of


class BugJudge:
    """Judges testbenches by bugs, as many at a time as there are processors."""

    def __init__(self, tracer: OutputTracer, limits: SimulationLimits) -> None:
        self._tracer = tracer
        self._limits = limits
        self._gate = asyncio.Semaphore(len(os.sched_getaffinity(0)))

    async def shares(self, design: Design, states: Sequence[Graded]) -> Mapping[str, float]:
        """Return the share of ``design``'s mutants that each state's testbench kills, by its text.

        Mutants that do not compile are left out. Raises SimulatorError where the machine failed.
        """
        ran = {state.testbench for state in states if coverage_of(state) is not None}
        texts = sorted(ran)
        found = await asyncio.gather(*(self._judged(design, text) for text in texts))
        return {text: _share(bugs) for text, bugs in zip(texts, found, strict=True)}

    async def _judged(self, design: Design, text: str) -> Bugs:
        async with self._gate:
            return await killed(self._tracer, design, text, design.mutants, self._limits)


def _share(bugs: Bugs) -> float:
    judged = len(bugs.killed) + len(bugs.survived)
    return len(bugs.killed) / judged if judged else 0.0
