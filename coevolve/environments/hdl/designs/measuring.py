"""Measures a design for admission: its reference testbenches, random stimulus and mutants.

Everything but the mutants uses the same path as the grading of policies. The good testbench runs
three times, because it covers the most; the others run once. Random stimulus runs in the design's
compiled harness, which reports the same coverage as the programs' testbenches.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import msgspec
import numpy as np

from coevolve.environments.hdl.coverage.holes import reachable
from coevolve.environments.hdl.coverage.points import point_set, point_text, score
from coevolve.environments.hdl.designs.admission import RANDOM_CYCLES, Measured, Run
from coevolve.environments.hdl.designs.design import QUALITIES, Design, Quality
from coevolve.environments.hdl.designs.mutants import Bugs, killed
from coevolve.environments.hdl.designs.output_trace import OutputTracer
from coevolve.environments.hdl.evaluation.baselines.target import target_of
from coevolve.environments.hdl.evaluation.baselines.uniform import (
    every_input,
    longest,
    random_programs,
)
from coevolve.environments.hdl.simulate.messages import (
    Coverage,
    Covered,
    Evaluate,
    Evaluated,
    Point,
    Testbench,
    Unit,
)
from coevolve.environments.hdl.simulate.summary import message
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator
from coevolve.environments.hdl.stimulus.harness import Harness

REPETITIONS: dict[Quality, int] = {"poor": 1, "mid": 1, "good": 3}

SEEDS = (1, 2, 3, 4, 5)
"""Seeds of the short random runs."""

LONG_SEEDS = (11, 12, 13)

PROGRAMS = 64
"""Number of random programs that try to cover points marked as unreachable."""


@dataclass(frozen=True, kw_only=True)
class RandomRuns:
    """Coverage of random stimulus."""

    short: tuple[Coverage, ...]
    long: tuple[Coverage, ...]
    programs: tuple[Coverage, ...]


async def measure(design: Design, simulator: VerilatorSimulator) -> Measured:
    """Return the measurements of ``design``; points frozen before do not matter.

    Raises SimulatorError on an infrastructure failure, and ConfigError where the RTL does not
    compile.
    """
    unit = msgspec.structs.replace(design.unit, points_sha256="")
    points = await simulator.points(unit)
    evaluated: dict[Quality, list[Evaluated]] = {
        quality: [await _evaluate(simulator, unit, design, quality) for _ in range(repetitions)]
        for quality, repetitions in REPETITIONS.items()
    }
    runs: dict[Quality, Run] = {quality: _run(each) for quality, each in evaluated.items()}
    random = await random_runs(design, unit, simulator)
    every = [
        *(coverage for run in runs.values() for coverage in run.coverages),
        *(random.short + random.long + random.programs),
    ]
    covered = merged(every)
    counting = frozenset(reachable(points, unit))
    return Measured(
        count=len(points),
        sha256=point_set(points).sha256,
        runs=runs,
        bugs=await bugs(design, runs, OutputTracer(simulator.tools)),
        random=tuple(coverage.overall_average for coverage in random.short),
        long_random=average(points, merged(random.long), unit),
        covered_unreachable=_texts(points, (n for n in covered if n not in counting)),
        uncovered=_texts(points, (n for n in counting if n not in covered)),
        cpu_s=median(cpu_s(each) for quality in QUALITIES for each in evaluated[quality]),
    )


async def random_runs(design: Design, unit: Unit, simulator: VerilatorSimulator) -> RandomRuns:
    """Run random stimulus; the long runs only for a design with a secret."""
    target = target_of(design)
    short, long = every_input(target, RANDOM_CYCLES), longest(target)
    source = random_programs(target, np.random.default_rng(0))
    harness = await Harness.open(unit, design.ports, simulator.toolchain, simulator.sandbox)
    try:
        return RandomRuns(
            short=tuple([(await harness.run([short], seed))[0] for seed in SEEDS]),
            long=tuple(
                [(await harness.run([long], seed))[0] for seed in LONG_SEEDS if design.file.secret]
            ),
            programs=tuple(await harness.run([next(source) for _ in range(PROGRAMS)], SEEDS[0])),
        )
    finally:
        await harness.close()


async def bugs(
    design: Design, runs: dict[Quality, Run], tracer: OutputTracer
) -> dict[Quality, Bugs]:
    """Return killed and surviving mutants under the good and the poor testbench.

    A testbench that failed has no entry.
    """
    found: dict[Quality, Bugs] = {}
    for quality in ("good", "poor"):
        if not runs[quality].failure:
            testbench = design.testbenches[quality]
            found[quality] = await killed(tracer, design, testbench, design.mutants)
    return found


def merged(coverages: Iterable[Coverage]) -> frozenset[int]:
    """Return the indices of the points that any of ``coverages`` covers."""
    bits = 0
    for coverage in coverages:
        bits |= int.from_bytes(coverage.hits, "little")
    return frozenset(index for index in range(bits.bit_length()) if bits >> index & 1)


def average(points: Sequence[Point], covered: Iterable[int], unit: Unit) -> float:
    """Return the overall average of a run that covered exactly these points."""
    counts = {points[index]: 1 for index in covered}
    return score(counts, point_set(points), unit).overall_average


def cpu_s(evaluated: Evaluated) -> float:
    """Return the CPU seconds of all stages of an evaluation."""
    return sum(stage.cpu_s for stage in evaluated.stages)


async def _evaluate(
    simulator: VerilatorSimulator, unit: Unit, design: Design, quality: Quality
) -> Evaluated:
    testbench = Testbench(text=design.testbenches[quality])
    request = Evaluate(unit=unit, submission=testbench, seed=design.file.seed)
    return await simulator.evaluate(request)


def _run(evaluated: Sequence[Evaluated]) -> Run:
    coverages: list[Coverage] = []
    for each in evaluated:
        match each.outcome:
            case Covered(ended="finish", coverage=coverage, faults=()):
                coverages.append(coverage)
            case Covered(ended="finish", faults=faults):
                return Run(failure="; ".join(faults))
            case Covered(ended=ended, slots=slots):
                return Run(failure=f"no $finish: {ended} after {slots} time slots")
            case outcome:
                return Run(failure=message(outcome) or type(outcome).__name__)
    return Run(coverages=tuple(coverages))


def _texts(points: Sequence[Point], indices: Iterable[int]) -> tuple[str, ...]:
    return tuple(point_text(points[index]) for index in sorted(indices))
