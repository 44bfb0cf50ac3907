import msgspec
import pytest

from coevolve.environments.hdl.designs.design import Mutant
from coevolve.environments.hdl.designs.mutants import Bugs, apply, killed
from coevolve.environments.hdl.designs.output_trace import OutputTracer, Traced
from coevolve.environments.hdl.simulate.messages import SimulationLimits, SourceFile, Unit
from coevolve.environments.hdl.simulate.verilator import open_simulator
from protocols.errors import ConfigError
from tests.small_designs import GOOD, MUTANTS, POOR, counter

pytestmark = pytest.mark.hdl

LIMITS = SimulationLimits(cpu_s=2.0)


def mutant(name: str, find: str, replace: str) -> Mutant:
    return Mutant(name=name, file="counter.sv", find=find, replace=replace, bug=name)


SAME = mutant("same", "count > 8'd127", "count[7]")
BROKEN = mutant("broken", "count > 8'd127", "count > nothing")
UNSTABLE = mutant("unstable", "assign high = count > 8'd127;", "always_comb high = !high;")


@pytest.fixture(scope="module")
def tracer() -> OutputTracer:
    return OutputTracer(open_simulator().tools)


async def test_a_testbench_kills_the_bugs_that_change_outputs(tracer: OutputTracer) -> None:
    found = await killed(tracer, counter(), GOOD, (*MUTANTS, SAME, BROKEN, UNSTABLE), LIMITS)
    assert found == Bugs(
        killed=("adds_one_too_many", "high_too_late", "unstable"),
        survived=("same",),
        broken=("broken",),
    )


async def test_a_testbench_that_never_reaches_the_bugs_kills_nothing(tracer: OutputTracer) -> None:
    found = await killed(tracer, counter(), POOR, MUTANTS[:1], LIMITS)
    assert found == Bugs(survived=("adds_one_too_many",))


async def test_prints_and_checks_of_a_testbench_do_not_count(tracer: OutputTracer) -> None:
    unit, limits = counter().unit, LIMITS
    loud = POOR.replace("$finish;", '$display("0123456789abcdef 99"); $error("bug"); $finish;')
    quiet = await tracer.trace(unit, POOR, 1, limits)
    assert isinstance(quiet, Traced)
    assert quiet.changes == 1
    heard = await tracer.trace(unit, loud, 1, limits)
    assert isinstance(heard, Traced)
    assert heard.faults
    assert not heard.differs(quiet)


async def test_outputs_of_a_design_without_a_clock_are_compared_too(tracer: OutputTracer) -> None:
    text = (
        "module both(input logic [3:0] a, output logic all, output logic [69:0] wide);\n"
        "  assign all = &a;\n  assign wide = {a, 66'd0};\nendmodule\n"
    )
    testbench = (
        "module tb;\n  logic [3:0] a = 0;\n  logic all;\n  logic [69:0] wide;\n  both dut (.*);\n"
        "  initial begin\n    for (int i = 0; i < 16; i++) begin a = i[3:0]; #1; end\n"
        "    $finish;\n  end\nendmodule\n"
    )
    unit = Unit(name="both", files=(SourceFile(name="both.sv", text=text),), top="both")
    wrong = msgspec.structs.replace(
        unit, files=(SourceFile(name="both.sv", text=text.replace("66'd0", "66'd1")),)
    )
    found = [await tracer.trace(each, testbench, 1, LIMITS) for each in (unit, wrong)]
    assert all(isinstance(each, Traced) and each.changes == 16 for each in found)
    assert found[0] != found[1]


def test_a_mutant_is_the_design_with_one_text_replaced() -> None:
    design = counter()
    mutated = apply(design.unit, MUTANTS[1])
    assert mutated.files[0].text == design.unit.files[0].text.replace("8'd127", "8'd250")
    assert mutated.name == "counter with high_too_late"


def test_a_text_that_occurs_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="found it 3 times"):
        apply(counter().unit, mutant("any", "step", "up"))
