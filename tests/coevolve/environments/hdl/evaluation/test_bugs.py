"""Bugs that testbenches and programs kill; both methods of judging are compared."""

import pytest

from coevolve.environments.hdl.designs.design import Mutant
from coevolve.environments.hdl.designs.mutants import Bugs, killed
from coevolve.environments.hdl.designs.output_trace import OutputTracer
from coevolve.environments.hdl.evaluation.bugs import BugJudge, share
from coevolve.environments.hdl.policy.transition import Graded
from coevolve.environments.hdl.simulate.messages import SimulationLimits
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator
from coevolve.environments.hdl.stimulus.language import parse
from coevolve.environments.hdl.stimulus.testbench import printed
from tests.hdl_transitions import FAILED, covered
from tests.small_designs import MUTANTS, PORTS, counter

pytestmark = pytest.mark.hdl

LIMITS = SimulationLimits(cpu_s=2.0)


def mutant(name: str, replace: str) -> Mutant:
    find = "assign high = count > 8'd127;"
    return Mutant(name=name, file="counter.sv", find=find, replace=replace, bug=name)


UNSTABLE = mutant("unstable", "always_comb high = !high;")
BROKEN = mutant("broken", "assign high = nothing;")
DESIGN = counter(mutants=(MUTANTS[0], UNSTABLE, BROKEN))


@pytest.fixture(scope="module")
def simulator() -> VerilatorSimulator:
    return open_simulator()


def written(program: str) -> Graded:
    unit = DESIGN.unit
    parsed = parse(program, PORTS, unit.clock, unit.reset)
    state = covered((1, 2), testbench=printed(parsed, unit, PORTS, DESIGN.file.seed))
    return Graded(testbench=state.testbench, program=program, outcome=state.outcome, key=state.key)


async def test_a_program_kills_what_its_testbench_kills(simulator: VerilatorSimulator):
    state = written("rst 2\nset up=1 step=5\nstep 9")
    judged = await BugJudge(simulator, LIMITS).judge(DESIGN, [state, state, FAILED])
    assert judged == {
        state.testbench: Bugs(killed=(MUTANTS[0].name, "unstable"), broken=("broken",))
    }
    tracer = OutputTracer(simulator.tools)
    assert judged[state.testbench] == await killed(
        tracer, DESIGN, state.testbench, DESIGN.mutants, LIMITS
    )


async def test_a_whole_testbench_is_judged_on_its_own(simulator: VerilatorSimulator):
    state = covered((1, 2), testbench=DESIGN.testbenches["poor"])
    few = counter(mutants=MUTANTS[:1])
    judged = await BugJudge(simulator, LIMITS).judge(few, [state])
    assert judged == {state.testbench: Bugs(survived=(MUTANTS[0].name,))}


def test_a_mutant_that_does_not_compile_does_not_count():
    assert share(Bugs(killed=("a",), survived=("b", "c", "d"), broken=("e",))) == 0.25
    assert share(Bugs(broken=("e",))) == 0.0
