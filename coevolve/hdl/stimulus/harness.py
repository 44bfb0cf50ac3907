"""Runs stimulus programs on a design that is compiled once: thousands for one testbench's cost.

The coverage of a program is, bit for bit, that of the testbench which
`coevolve.hdl.stimulus.testbench` prints for it, as long as that testbench ends before the limits of
an evaluation (programs are short enough for the default ones). One program is one fresh simulation,
so programs do not see each other.

The compiled design runs in the sandbox as a long-lived child, without network, within the limits
below. Where it dies or hangs, that is a SimulatorError, and the next call starts another.
"""

import asyncio
import shutil
import threading
from collections.abc import Sequence

from coevolve.hdl.points import PointSet, point_text
from coevolve.hdl.sandbox import Sandbox, StageLimits
from coevolve.hdl.stimulus.compiled import Compiled, Optimise, compiled
from coevolve.hdl.stimulus.dialogue import ANSWERS, REQUESTS, Dialogue
from coevolve.hdl.stimulus.instructions import request
from coevolve.hdl.stimulus.program import Pins, Program, pins
from coevolve.hdl.toolchain import Toolchain
from coevolve.hdl.work_folders import WorkFolder
from protocols.errors import SimulatorError
from protocols.hardware import METRICS, Coverage, KindCount, Metric, Point, Port, Unit

LIFE_S = 3600.0
"""Age after which a child is replaced, long before its limits of time."""

LIMITS = StageLimits(
    cpu_s=4 * LIFE_S,
    wall_s=4 * LIFE_S,
    memory_mb=1500,
    file_mb=1,
    processes=8,
    output_bytes=65_536,
)
PROGRAM_S = 20
"""Wall clock of one program."""

PATIENCE_S = 60.0
"""How long nothing at all may come from the child."""

BATCH = 64
"""Programs that are asked for at once."""


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
        """Use a compiled design; a child is started by the first `run`."""
        self._design = design
        self._pins = design_pins
        self._sandbox = sandbox
        self._program_s = program_s
        self._kinds = _kinds(design.points, unit)
        self._child: Dialogue | None = None
        self._work: WorkFolder | None = None
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

    async def run(self, programs: Sequence[Program], seed: int) -> tuple[Coverage, ...]:
        """Return the coverage of each program, all with the same seed.

        Raises SimulatorError where the child died or hung.
        """
        return await asyncio.to_thread(self._run, programs, seed)

    async def close(self) -> None:
        """End the child; a later `run` starts another."""
        await asyncio.to_thread(self._close)

    def _run(self, programs: Sequence[Program], seed: int) -> tuple[Coverage, ...]:
        size = (len(self.points) + 7) // 8
        made: list[Coverage] = []
        with self._turn:
            for first in range(0, len(programs), BATCH):
                batch = programs[first : first + BATCH]
                told = request(batch, self._pins, seed)
                answer = self._ask(told, size * len(batch))
                made.extend(
                    self._coverage(answer[at : at + size]) for at in range(0, len(answer), size)
                )
        return tuple(made)

    def _ask(self, told: bytes, answer_bytes: int) -> bytes:
        child = self._child
        if child is None or not child.alive or child.age_s > LIFE_S:
            self._end()
            child = self._start()
        try:
            return child.ask(told, answer_bytes, PATIENCE_S)
        except SimulatorError:
            self._end()
            raise

    def _start(self) -> Dialogue:
        self._work = WorkFolder()
        work = self._work.path
        program = shutil.copy(self._design.program, work)
        owners = shutil.copy(self._design.owners, work)
        count = str(len(self.points))
        argv = (program, "serve", owners, count, REQUESTS, ANSWERS, str(self._program_s))
        self._child = Dialogue(
            self._sandbox, [str(each) for each in argv], work=work, limits=LIMITS
        )
        return self._child

    def _close(self) -> None:
        with self._turn:
            self._end()

    def _end(self) -> None:
        if self._child is not None:
            self._child.close(PATIENCE_S)
        if self._work is not None:
            self._work.remove()
        self._child = self._work = None

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
    """Return, for each kind that the design has, which bits count."""
    unreachable = frozenset(unit.unreachable)
    masks = dict.fromkeys(METRICS, 0)
    for index, point in enumerate(points.points):
        if point_text(point) not in unreachable:
            masks[point.metric] |= 1 << index
    return tuple((metric, masks[metric]) for metric in METRICS if masks[metric])
