"""Grades stimulus programs on designs compiled once, and all other submissions by Verilator itself.

A program has the same outcome as the testbench that it prints as (`hdl.stimulus.harness`), at a
thousandth of the cost, with two differences: the reported simulation time assumes that each wait
takes its maximum, and the programs of one batch share its cost evenly. Where the design reports an
error, ends the simulation, or may print what fails it, the printed testbench is simulated itself.

Programs for one design that arrive together run together. At most ``most_open`` designs have a
child process; when another design needs one, the child of the least recently used design ends.
"""

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from coevolve.environments.hdl.designs.rtl import ports
from coevolve.environments.hdl.gate.elaboration import TESTBENCH
from coevolve.environments.hdl.simulate.grading import encodable
from coevolve.environments.hdl.simulate.messages import (
    BadStimulus,
    Coverage,
    Covered,
    Evaluate,
    Evaluated,
    Outcome,
    Point,
    Port,
    StageCost,
    Stimulus,
    SubmissionForm,
    Unit,
)
from coevolve.environments.hdl.simulate.reward import Noticed
from coevolve.environments.hdl.simulate.trial import ProgramTrial
from coevolve.environments.hdl.simulate.verilator import (
    VerilatorSimulator,
    evaluation_key,
    open_simulator,
)
from coevolve.environments.hdl.stimulus.harness import Harness
from coevolve.environments.hdl.stimulus.language import StimulusError, parse
from coevolve.environments.hdl.stimulus.program import Program, cost
from coevolve.environments.hdl.stimulus.testbench import printed
from protocols.errors import SimulatorError

MOST_OPEN = 40
COMPILING = 2
"""Maximum number of designs that are compiled at the same time."""

TOP, INSTANCE = "tb", "dut"
"""Names in the testbench that a program prints as."""

_PRINTS = re.compile(r"\$(display|write|strobe|monitor|info|warning|error|fatal)")

PICOSECONDS = 1000
HALF_CYCLE_NS = 5


@dataclass(frozen=True, kw_only=True)
class _Waiting:
    """A program that waits to run, and the future of its coverage and its cost."""

    program: Program
    seed: int
    result: "asyncio.Future[tuple[Coverage | None, StageCost]]"


@dataclass(kw_only=True, eq=False)
class _Bench:
    """A design with its harness, and the programs that wait to run on it."""

    harness: Harness
    ports: tuple[Port, ...]
    waiting: list[_Waiting] = field(default_factory=list[_Waiting])
    work: asyncio.Task[None] | None = None
    trial: ProgramTrial | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    closes_itself: bool = False
    """Whether the design lost its place to another, so that `_work` has to close the harness."""

    async def coverage(self, program: Program, seed: int) -> tuple[Coverage | None, StageCost]:
        """Return the program's coverage, and its share of the cost of its batch.

        None where the design reported an error or ended the simulation.
        """
        result = asyncio.get_running_loop().create_future()
        self.waiting.append(_Waiting(program=program, seed=seed, result=result))
        if self.work is None:
            self.work = asyncio.create_task(self._work())
        return await result

    async def _work(self) -> None:
        """Run the waiting programs, all of one seed at a time, until none waits."""
        await asyncio.sleep(0)  # requests of the same turn of the event loop join the batch
        while self.waiting:
            seed = self.waiting[0].seed
            batch = [each for each in self.waiting if each.seed == seed]
            self.waiting = [each for each in self.waiting if each.seed != seed]
            started, spent_s = time.monotonic(), self.harness.cpu_s
            try:
                found = await self.harness.judged([each.program for each in batch], seed)
            except SimulatorError as error:
                _settle(batch, [error] * len(batch))
            else:
                cost = StageCost(
                    stage="simulate",
                    cpu_s=(self.harness.cpu_s - spent_s) / len(batch),
                    wall_s=(time.monotonic() - started) / len(batch),
                )
                _settle(batch, [(None if spoke else coverage, cost) for coverage, spoke in found])
        self.work = None
        if self.closes_itself:
            await self.close()

    async def close(self) -> None:
        """End the child processes."""
        await self.harness.close()
        if self.trial is not None:
            await asyncio.to_thread(self.trial.close)


def _settle(
    batch: Sequence[_Waiting],
    results: Sequence[tuple[Coverage | None, StageCost] | SimulatorError],
) -> None:
    for waiting, result in zip(batch, results, strict=True):
        if waiting.result.done():
            continue
        if isinstance(result, SimulatorError):
            waiting.result.set_exception(SimulatorError(str(result)))
        else:
            waiting.result.set_result(result)


class HarnessSimulator:
    """A `coevolve.environments.hdl.simulate.interfaces.TestbenchSimulator`."""

    def __init__(
        self,
        verilator: VerilatorSimulator,
        *,
        form: SubmissionForm = "stimulus",
        most_open: int = MOST_OPEN,
    ) -> None:
        """Use ``verilator`` for all but programs; ``form`` is the form of most submissions."""
        self._verilator = verilator
        self._form = form
        self._most_open = most_open
        self._benches: OrderedDict[Unit, asyncio.Task[_Bench]] = OrderedDict()
        self._compiling = asyncio.Semaphore(COMPILING)
        self._cpu_s = 0.0

    async def evaluate(self, request: Evaluate) -> Evaluated:
        evaluated = await self._grade(encodable(request))
        self._cpu_s += evaluated.cpu_s
        return evaluated

    def cpu_s(self) -> float:
        """Return the CPU seconds of all evaluations so far."""
        return self._cpu_s

    async def points(self, unit: Unit) -> tuple[Point, ...]:
        if self._form == "stimulus":
            return (await self._bench(unit)).harness.points
        return await self._verilator.points(unit)

    async def close(self) -> None:
        """End every child process; later programs start new ones."""
        for opened in self._benches.values():
            if opened.done() and not opened.cancelled() and opened.exception() is None:
                await opened.result().close()

    async def _grade(self, request: Evaluate) -> Evaluated:
        submission = request.submission
        if not isinstance(submission, Stimulus) or not _runs_alone(request):
            return await self._verilator.evaluate(request)
        bench = await self._bench(request.unit)
        unit, started, cpu = request.unit, time.monotonic(), time.thread_time()
        try:
            program = parse(submission.program, bench.ports, unit.clock, unit.reset)
            text = printed(program, unit, bench.ports, request.seed)
        except StimulusError as error:
            fault = BadStimulus(line=error.line, reason=error.reason)
            return self._result(request, "", fault, ())
        if _slots(program, unit) > request.limits.slots or _may_print(request):
            return await self._verilator.evaluate(request)
        cpu_s, wall_s = time.thread_time() - cpu, time.monotonic() - started
        checked = StageCost(stage="check", cpu_s=cpu_s, wall_s=wall_s)
        coverage, ran = await bench.coverage(program, request.seed)
        if coverage is None:
            return await self._verilator.evaluate(request)
        mutants, cost = await self._trial(bench, program, request, coverage)
        outcome = Covered(
            mutants=mutants,
            coverage=coverage,
            ended="finish",
            slots=_slots(program, unit),
            time=_time(program, unit),
            log=_log(text),
        )
        return self._result(request, text, outcome, (checked, ran, *cost))

    def _result(
        self, request: Evaluate, text: str, outcome: Outcome, stages: tuple[StageCost, ...]
    ) -> Evaluated:
        toolchain = self._verilator.toolchain
        return Evaluated(
            key=evaluation_key(toolchain, request, text),
            testbench=text,
            outcome=outcome,
            seed=request.seed,
            stages=stages,
            toolchain=toolchain.identity,
            sandbox=self._verilator.sandbox.level,
        )

    async def _bench(self, unit: Unit) -> _Bench:
        opened = self._benches.get(unit)
        if opened is None:
            opened = self._benches[unit] = asyncio.create_task(self._open_bench(unit))
            await self._make_room()
        self._benches.move_to_end(unit)
        try:
            return await asyncio.shield(opened)
        except Exception:
            if opened.done() and self._benches.get(unit) is opened:
                self._benches.pop(unit)
            raise

    async def _open_bench(self, unit: Unit) -> _Bench:
        async with self._compiling:
            found = await asyncio.to_thread(ports, unit)
            toolchain, sandbox = self._verilator.toolchain, self._verilator.sandbox
            harness = await Harness.open(unit, found, toolchain, sandbox)
        return _Bench(harness=harness, ports=found)

    async def _trial(
        self, bench: _Bench, program: Program, request: Evaluate, coverage: Coverage
    ) -> tuple[Noticed | None, tuple[StageCost, ...]]:
        """Return the result of the trial on mutants and its cost, if the coverage earns it."""
        trial = request.trial
        if trial is None or trial.counts == "noticed" or coverage.overall_average <= trial.above:
            return None, ()
        boards, most = self._verilator.switchboards, trial.most
        async with bench.turn:
            if bench.trial is None:
                board = await asyncio.to_thread(boards.of, request.unit, most)
                bench.trial = await asyncio.to_thread(ProgramTrial, self._verilator.tools, board)
        noticed, cost = await asyncio.to_thread(bench.trial.noticed, program, request.seed)
        return noticed, (cost,)

    async def _make_room(self) -> None:
        """Close idle designs beyond the maximum, the least recently used first."""
        for unit, opened in list(self._benches.items()):
            if len(self._benches) <= self._most_open:
                return
            if opened.done() and opened.exception() is None and opened.result().work is None:
                self._benches.pop(unit)
                opened.result().closes_itself = True
                await opened.result().close()


def open_harnessed(form: SubmissionForm) -> HarnessSimulator:
    """Return a simulator with this machine's tools, mostly for submissions of ``form``.

    Raises DependencyError where something is missing.
    """
    return HarnessSimulator(open_simulator(), form=form)


def _runs_alone(request: Evaluate) -> bool:
    """Return whether a program can run without its testbench, which has these names."""
    return request.testbench_top in ("", TOP) and request.instance in ("", INSTANCE)


def _may_print(request: Evaluate) -> bool:
    """Return whether the design may print what a pattern of the request looks for."""
    texts = (file.text for file in request.unit.files)
    return bool(request.limits.fail_on) and any(_PRINTS.search(text) for text in texts)


def _slots(program: Program, unit: Unit) -> int:
    """Return the time slots of the printed testbench if each wait takes its maximum."""
    return (2 if unit.clock else 1) * cost(program.statements).cycles + 3


def _time(program: Program, unit: Unit) -> int:
    """Return the time at which it ends, in ps, if each wait takes its maximum."""
    return (_slots(program, unit) - 1) * HALF_CYCLE_NS * PICOSECONDS


def _log(text: str) -> str:
    """Return the log line that Verilator prints at the end of the printed testbench."""
    line = text[: text.rindex("$finish")].count("\n") + 1
    return f"- {TESTBENCH}:{line}: Verilog $finish\n"
