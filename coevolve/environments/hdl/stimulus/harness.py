"""Runs stimulus programs on a design compiled once: thousands for the cost of one testbench.

A program's coverage is, bit for bit, that of the testbench which `hdl.stimulus.testbench` prints
for it, if that testbench ends within the limits of an evaluation (programs are short enough for the
default ones). Each program is a new simulation, so programs do not affect each other.

The compiled design runs in a child process (`hdl.stimulus.server`). If it dies or hangs, the call
raises SimulatorError, and the next call starts a new child.
"""

import asyncio
import threading
from collections.abc import Sequence

from coevolve.environments.hdl.coverage.points import PointSet, point_text
from coevolve.environments.hdl.simulate.messages import (
    METRICS,
    Coverage,
    KindCount,
    Metric,
    Point,
    Port,
    Unit,
)
from coevolve.environments.hdl.simulate.toolchain import Toolchain
from coevolve.environments.hdl.stimulus.compiled import Compiled, Optimise, compiled
from coevolve.environments.hdl.stimulus.instructions import request
from coevolve.environments.hdl.stimulus.program import Pins, Program, pins
from coevolve.environments.hdl.stimulus.server import PROGRAM_S, Server
from coevolve.environments.sdk import Sandbox

BATCH = 64
"""Maximum programs in one request to the child."""


class Harness:
    """One design, compiled and running; calls from several tasks wait for each other."""

    def __init__(
        self,
        design: Compiled,
        unit: Unit,
        design_pins: Pins,
        sandbox: Sandbox,
        program_s: int = PROGRAM_S,
    ) -> None:
        """Use a compiled design; the first `run` starts a child."""
        self._design = design
        self._pins = design_pins
        self._kinds = _kinds(design.points, unit)
        mode = ("serve", design.owners.name, str(len(design.points.points)))
        self._server = Server(design, sandbox, mode, program_s)
        self._turn = threading.Lock()

    @classmethod
    async def open(
        cls,
        unit: Unit,
        ports: Sequence[Port],
        toolchain: Toolchain,
        sandbox: Sandbox,
        optimise: Optimise = "-O0",
        program_s: int = PROGRAM_S,
    ) -> "Harness":
        """Compile the design, or take it from the cache.

        Raises ConfigError where it does not compile or its points are not the frozen ones.
        """
        design_pins = pins(ports, unit.clock, unit.reset)
        design = await asyncio.to_thread(
            compiled,
            unit,
            ports,
            design_pins,
            toolchain=toolchain,
            sandbox=sandbox,
            optimise=optimise,
        )
        return cls(design, unit, design_pins, sandbox, program_s)

    @property
    def points(self) -> tuple[Point, ...]:
        """The design's points, in the order of the bits of a coverage."""
        return self._design.points.points

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all programs so far."""
        return self._server.cpu_s

    async def run(self, programs: Sequence[Program], seed: int) -> tuple[Coverage, ...]:
        """Return the coverage of each program, all with the same seed.

        Raises SimulatorError where the child died or hung.
        """
        return tuple(coverage for coverage, _ in await self.judged(programs, seed))

    async def judged(
        self, programs: Sequence[Program], seed: int
    ) -> tuple[tuple[Coverage, bool], ...]:
        """Return for each program, as `run`, its coverage and whether the design spoke.

        A design speaks if it reports an error or ends the simulation.
        """
        return await asyncio.to_thread(self._run, programs, seed)

    async def close(self) -> None:
        """End the child; a later `run` starts another."""
        await asyncio.to_thread(self._close)

    def _run(self, programs: Sequence[Program], seed: int) -> tuple[tuple[Coverage, bool], ...]:
        size = (len(self.points) + 7) // 8 + 1
        made: list[tuple[Coverage, bool]] = []
        with self._turn:
            for first in range(0, len(programs), BATCH):
                batch = programs[first : first + BATCH]
                message = request(batch, self._pins, seed)
                answer = self._server.ask(message, size * len(batch))
                made.extend(
                    (self._coverage(answer[at : at + size - 1]), answer[at + size - 1] > 0)
                    for at in range(0, len(answer), size)
                )
        return tuple(made)

    def _close(self) -> None:
        with self._turn:
            self._server.end()

    def _coverage(self, hits: bytes) -> Coverage:
        bits = int.from_bytes(hits, "little")
        return Coverage(
            points_hash=self._design.points.sha256,
            hits=hits,
            kinds=tuple(
                KindCount(metric=metric, covered=(bits & mask).bit_count(), total=mask.bit_count())
                for metric, mask in self._kinds
            ),
        )


def _kinds(points: PointSet, unit: Unit) -> tuple[tuple[Metric, int], ...]:
    """Return the mask of the points that count, for each kind that the design has."""
    unreachable = frozenset(unit.unreachable)
    masks = dict.fromkeys(METRICS, 0)
    for index, point in enumerate(points.points):
        if point_text(point) not in unreachable:
            masks[point.metric] |= 1 << index
    return tuple((metric, masks[metric]) for metric in METRICS if masks[metric])
