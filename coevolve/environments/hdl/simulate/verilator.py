"""Grades testbenches by the coverage that they reach in Verilator.

Guarantees: the same request has the same outcome at any time on any machine (except for limits of
CPU time and memory); a testbench is scored over its design's own points, whatever it elaborates;
messages contain only text from the testbench and the design. Two evaluations may run at once.

The design's points are those of an empty testbench that only instantiates it; this also shows that
the design itself compiles. They are computed once per process and design.

Foreign code of a testbench runs only in `sandbox.runner`, after `hdl.gate.source` accepted it.
Separate processes parse it with pyslang: before compilation, to find the module to simulate and to
check sizes, and after a failure, to explain the errors.
"""

import asyncio
import hashlib
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from coevolve.environments.hdl.coverage.instrument import Instrumented, instrument
from coevolve.environments.hdl.coverage.plan import check_plan
from coevolve.environments.hdl.coverage.points import (
    PointSet,
    check_points,
    counts,
    point_set,
    point_text,
    records,
    score,
)
from coevolve.environments.hdl.designs.rtl import elaborate, ports_of
from coevolve.environments.hdl.designs.wrapping import alone
from coevolve.environments.hdl.gate.elaboration import without_parameters
from coevolve.environments.hdl.gate.levels import Gate, admitted
from coevolve.environments.hdl.gate.patch import PatchError, apply
from coevolve.environments.hdl.gate.source import violations
from coevolve.environments.hdl.simulate.grading import encodable
from coevolve.environments.hdl.simulate.known_points import known_points
from coevolve.environments.hdl.simulate.messages import (
    BadStimulus,
    CompileFailed,
    Covered,
    Evaluate,
    Evaluated,
    NotCovered,
    Outcome,
    Patch,
    PatchFailed,
    Point,
    Port,
    SimulationLimits,
    StageCost,
    Stimulus,
    Testbench,
    Unit,
)
from coevolve.environments.hdl.simulate.runtime import open_runtime
from coevolve.environments.hdl.simulate.simulation import (
    BLANK_TOP,
    NO_PROGRAM,
    TOO_LARGE,
    TRANSLATE,
    TRANSLATION_FILE_MB,
    BuildError,
    Simulation,
    Stopped,
    Tools,
    simulation,
)
from coevolve.environments.hdl.simulate.toolchain import Toolchain, find_toolchain
from coevolve.environments.hdl.simulate.trial import Switchboards, is_worth, tried
from coevolve.environments.hdl.simulate.verdict import checks, faults
from coevolve.environments.hdl.stimulus.language import StimulusError
from coevolve.environments.hdl.stimulus.testbench import render
from coevolve.environments.sdk import Sandbox, sweep
from protocols.errors import ConfigError, SimulatorError

MOST_UNITS = 256
"""Maximum number of designs whose points are cached."""

ALONE = SimulationLimits(compile_cpu_s=200.0, wall_s=600.0)
"""Limits of a design by itself, which may be large."""

LARGE = (
    f"what Verilator makes of it has more than {TRANSLATION_FILE_MB} MB; take a module inside of "
    "it for the top, or parameters that make it smaller"
)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A design that compiles, with everything that an evaluation needs of it."""

    unit: Unit
    instrumented: Instrumented
    ports: tuple[Port, ...]
    points: PointSet
    blank: str
    """A testbench that only instantiates it."""


class VerilatorSimulator:
    """A `coevolve.environments.hdl.simulate.interfaces.TestbenchSimulator`."""

    def __init__(self, toolchain: Toolchain, sandbox: Sandbox, *, gate: Gate = violations) -> None:
        """Build the toolchain's runtime if it is missing, which takes a while."""
        self.toolchain = toolchain
        self.sandbox = sandbox
        self.tools = Tools(toolchain=toolchain, runtime=open_runtime(toolchain), sandbox=sandbox)
        self.switchboards = Switchboards(self.tools)
        self._gate = gate
        self._prepared: OrderedDict[Unit, Prepared] = OrderedDict()
        self._preparing: dict[Unit, threading.Lock] = {}
        self._guard = threading.Lock()

    async def evaluate(self, request: Evaluate) -> Evaluated:
        """Grade one submission.

        Raises SimulatorError on an infrastructure failure, and ConfigError where the unit itself
        does not compile.
        """
        return await asyncio.to_thread(self._evaluate, encodable(request))

    async def points(self, unit: Unit) -> tuple[Point, ...]:
        return (await asyncio.to_thread(self.prepare, unit)).points.points

    def prepare(self, unit: Unit) -> Prepared:
        """Return what evaluations of the unit share; cached after the first call. Blocks."""
        with self._guard:
            lock = self._preparing.setdefault(unit, threading.Lock())
        try:
            with lock:
                found = self._prepared.get(unit)
                if found is None:
                    found = prepared(self.tools, unit)
                self._keep(found)
        finally:
            with self._guard:
                self._preparing.pop(unit, None)
        return found

    def _keep(self, found: Prepared) -> None:
        with self._guard:
            self._prepared[found.unit] = found
            self._prepared.move_to_end(found.unit)
            while len(self._prepared) > MOST_UNITS:
                self._prepared.popitem(last=False)

    def _evaluate(self, request: Evaluate) -> Evaluated:
        design = self.prepare(request.unit)
        with simulation(self.tools, request.unit, request.limits) as under_way:
            text, outcome = self._outcome(request, design, under_way)
            return Evaluated(
                key=evaluation_key(self.toolchain, request, text),
                testbench=text,
                outcome=outcome,
                seed=request.seed,
                stages=tuple(under_way.costs),
                toolchain=self.toolchain.identity,
                sandbox=self.sandbox.level,
            )

    def _outcome(
        self, request: Evaluate, design: Prepared, under_way: Simulation
    ) -> tuple[str, Outcome]:
        """Return the text that was graded, and its outcome."""
        started, cpu = time.monotonic(), time.thread_time()
        text = _text(request, design)
        found = text if not isinstance(text, str) else self._top_of(text, request)
        under_way.costs.append(_cost("check", started, cpu))
        if not isinstance(text, str):
            return "", text
        if not isinstance(found, str):
            return text, found
        try:
            outcome = _simulate(text, found, request, design, under_way)
        except Stopped as stopped:
            return text, stopped.outcome
        except BuildError:
            under_way.costs += self._build_alone(design)
            return text, CompileFailed(message=NO_PROGRAM)
        if request.trial is None or not is_worth(outcome, request.trial):
            return text, outcome
        board = self.switchboards.of(request.unit, request.trial.most)
        mutants, cost = tried(self.tools, board, request, text, found)
        under_way.costs.append(cost)
        return text, msgspec.structs.replace(outcome, mutants=mutants)

    def _build_alone(self, design: Prepared) -> list[StageCost]:
        """Return the cost of building the design without a testbench.

        Raises SimulatorError if that fails, because the design compiled before.
        """
        with simulation(self.tools, design.unit, SimulationLimits()) as lone:
            try:
                lone.translate(design.instrumented.files, design.blank, BLANK_TOP)
                lone.compile()
            except Stopped as stopped:
                raise SimulatorError(
                    f"design {design.unit.name} compiled before and no longer does: "
                    f"{_reason(stopped.outcome)}"
                ) from stopped
            return lone.costs

    def _top_of(self, text: str, request: Evaluate) -> str | Outcome:
        """Return the module to simulate, or the outcome if nothing can be simulated."""
        return admitted(
            text,
            request.unit,
            told=request.testbench_top,
            instance=request.instance,
            level=request.gate,
            gate=self._gate,
        )


def open_simulator() -> VerilatorSimulator:
    """Return a simulator with this machine's tools in the strongest sandbox that works here.

    Raises DependencyError if a program is missing.
    """
    sweep()
    toolchain = find_toolchain()
    runtime = open_runtime(toolchain)
    return VerilatorSimulator(toolchain, Sandbox([runtime.folder]))


def prepared(tools: Tools, unit: Unit) -> Prepared:
    """Return the design instrumented, with its ports and points.

    Raises ConfigError where it does not compile or its points are not the frozen ones, and
    SimulatorError on an infrastructure failure.
    """
    rtl = elaborate(unit)
    check_plan(unit)
    instrumented = instrument(rtl)
    blank = alone(rtl, BLANK_TOP)
    inputs = (instrumented.files, unit.plan, unit.data, unit.top, blank, TRANSLATE)
    found = known_points(
        tools.runtime.folder, inputs, lambda: _points(tools, unit, instrumented, blank)
    )
    over = point_set(found)
    check_points(over, unit)
    return Prepared(
        unit=unit, instrumented=instrumented, ports=ports_of(rtl), points=over, blank=blank
    )


def _points(tools: Tools, unit: Unit, instrumented: Instrumented, blank: str) -> tuple[Point, ...]:
    """Return the points of the design, by simulating it alone. Raises as `prepared`."""
    with simulation(tools, unit, ALONE) as under_way:
        try:
            under_way.translate(instrumented.files, blank, BLANK_TOP)
            (dut,) = under_way.find_duts()
            under_way.compile()
            under_way.run(seed=1)
            found = list(records(under_way.read("coverage.dat")))
        except Stopped as stopped:
            reason = _reason(stopped.outcome)
            raise ConfigError(
                f"design {unit.name} does not simulate by itself: "
                + (LARGE if reason == TOO_LARGE else reason)
            ) from stopped
    return tuple(counts(found, dut, instrumented, _plan(unit)))


def _simulate(
    text: str, top: str, request: Evaluate, design: Prepared, under_way: Simulation
) -> Covered:
    """Return the coverage. Raises Stopped with any other outcome."""
    trusted = request.gate == "trusted"
    compiled = without_parameters(text, request.unit, top, trusted=trusted)
    under_way.translate(design.instrumented.files, compiled, top)
    duts = under_way.find_duts(request.instance, several=trusted)
    model = under_way.model()
    under_way.compile()
    ran = under_way.run(request.seed)
    started, cpu = time.monotonic(), time.thread_time()
    found = list(records(under_way.read("coverage.dat")))
    made: Counter[Point] = Counter()
    for dut in duts:
        of_one = counts(found, dut, design.instrumented, _plan(request.unit))
        if trusted:
            check_own_points(of_one, design.points)
        made.update(of_one)
    coverage = score(made, design.points, request.unit)
    under_way.costs.append(_cost("read", started, cpu))
    return Covered(
        coverage=coverage,
        ended=ran.ended,
        slots=ran.slots,
        time=ran.time,
        log=ran.log,
        faults=faults(ran, model, request.limits),
        checks=checks(model, compiled, request.limits.fail_on),
    )


def check_own_points(made: Mapping[Point, int], over: PointSet) -> None:
    """Raise Stopped with NotCovered if a run has other code points than the design by itself.

    Then its parameters, or its text, are others than those of the design.
    """
    own = {point for point in over.points if point.metric != "plan"}
    found = {point for point in made if point.metric != "plan"}
    if found != own:
        (first, *_) = sorted(found ^ own)
        which = "is not one of the design" if first in found else "is missing"
        raise Stopped(
            NotCovered(
                message=f"the run needs the design's own {len(own)} points, found {len(found)}: "
                f"{point_text(first)} {which}; the testbench changes parameters of the design"
            )
        )


def _text(request: Evaluate, design: Prepared) -> str | Outcome:
    """Return the testbench of the submission, or the outcome if it has none."""
    match request.submission:
        case Testbench(text=text):
            return text
        case Patch(text=patch, base=base):
            try:
                return apply(base, patch)
            except PatchError as error:
                return PatchFailed(hunks=error.hunks, reason=str(error))
        case Stimulus(program=program):
            try:
                return render(program, request.unit, design.ports, request.seed)
            except StimulusError as error:
                return BadStimulus(line=error.line, reason=error.reason)


def _plan(unit: Unit) -> frozenset[str]:
    return frozenset(file.name for file in unit.plan)


def _reason(outcome: Outcome) -> str:
    match outcome:
        case CompileFailed(message=message) | NotCovered(message=message):
            return message
        case _:
            return str(getattr(outcome, "message", outcome))


def _cost(stage: str, started: float, cpu: float) -> StageCost:
    return StageCost(
        stage="check" if stage == "check" else "read",
        cpu_s=time.thread_time() - cpu,
        wall_s=time.monotonic() - started,
    )


def evaluation_key(toolchain: Toolchain, request: Evaluate, text: str) -> str:
    """Return the hash of everything that the outcome depends on; ``text`` is what is compiled."""
    submitted: Sequence[object] = [text] if text else [request.submission]
    inputs = (
        toolchain.identity,
        request.unit,
        submitted,
        request.testbench_top,
        request.instance,
        request.seed,
        request.limits,
        request.gate,
        request.trial,
    )
    return hashlib.sha256(msgspec.msgpack.encode(inputs)).hexdigest()
