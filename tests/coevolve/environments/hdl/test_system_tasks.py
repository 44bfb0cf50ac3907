"""Every system task that the gate accepts compiles, links and runs."""

import asyncio
from collections.abc import Iterator, Mapping

import msgspec
import pytest

from coevolve.environments.hdl.gate.rules import TASKS
from coevolve.environments.hdl.simulate.messages import (
    CompileFailed,
    Covered,
    DataFile,
    Evaluate,
    Evaluated,
    SimulationFailed,
    SourceFile,
    Testbench,
    Unit,
)
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator

pytestmark = [pytest.mark.hdl, pytest.mark.timeout(300)]

RTL = (
    "module m (input logic clk, output logic q);\n  always_ff @(posedge clk) q <= ~q;\nendmodule\n"
)
UNIT = Unit(
    name="m",
    files=(SourceFile(name="m.sv", text=RTL),),
    data=(DataFile(name="vectors.txt", text="7 text\n"),),
    top="m",
)

_CALLS: Mapping[str, str] = {
    "STATEMENT('text %0d', n)": """
        display displayb displayh displayo write writeb writeh writeo strobe strobeb strobeh strobeo
        monitor monitorb monitorh monitoro info warning error
    """,
    "STATEMENT": """
        monitoron monitoroff printtimescale fflush dumpon dumpoff dumpall dumpflush
        dumpvars asserton assertoff assertkill assertpasson assertpassoff assertfailon assertfailoff
        assertnonvacuouson assertvacuousoff
    """,
    "n = STATEMENT": "random urandom",
    "n = STATEMENT(n)": """
        signed unsigned bits clog2 countones onehot onehot0 isunknown
    """,
    "n = STATEMENT(BOUND)": "isunbounded",
    "n = STATEMENT(array)": "size high low left right increment dimensions unpacked_dimensions",
    "n = STATEMENT(seed, 1, 9)": "dist_uniform dist_normal dist_erlang",
    "n = STATEMENT(seed, 9)": "dist_exponential dist_poisson dist_chi_square dist_t",
    "r = STATEMENT(0.5)": """
        ln log10 exp sqrt floor ceil sin cos tan asin acos atan sinh cosh tanh asinh atanh
    """,
    "r = STATEMENT(2.5)": "acosh",
    "r = STATEMENT(2.5, 1.5)": "pow atan2 hypot",
    "r = STATEMENT": "realtime",
    "t = STATEMENT": "time stime",
    "STATEMENT(s, 'text %0d', n)": "sformat",
    "s = STATEMENT('text %0d', n)": "sformatf psprintf",
    "STATEMENT(s, 'text')": "swrite swriteb swriteh swriteo",
    "n = STATEMENT('7', '%d', n)": "sscanf",
    "s = STATEMENT(n)": "typename",
    "n = STATEMENT('wide')": "test$plusargs",
    "n = STATEMENT('wide=%d', n)": "value$plusargs",
    "n = STATEMENT(9, 1)": "urandom_range",
    "n = STATEMENT(n, 1'b1)": "countbits",
    "n = STATEMENT(file, '%d', n); if (n != 1) $fatal": "fscanf",
    "n = STATEMENT(s, file); if (s != ' text\\n') $fatal": "fgets",
    "n = STATEMENT(file)": "fgetc feof",
    "STATEMENT(file)": "fclose",
    "n = STATEMENT(n, 2)": "cast",
    "r = STATEMENT(n)": "itor",
    "n = STATEMENT(r)": "rtoi",
    "w = STATEMENT(r)": "realtobits",
    "r = STATEMENT(w)": "bitstoreal",
    "n = STATEMENT(1.5)": "shortrealtobits",
    "r = STATEMENT(32'd5)": "bitstoshortreal",
    "STATEMENT(-9, 2, ' ns', 10)": "timeformat",
    "STATEMENT('waves.vcd')": "dumpfile",
    "STATEMENT(1000)": "dumplimit",
    "STATEMENT(3)": "assertcontrol",
    "n = STATEMENT(tb)": "timeunit timeprecision",
    "CLOCKED(n)": "past rose fell stable changed sampled",
    "END(0)": "fatal finish stop",
    "END": "exit",
}
"""Names of tasks by the form of their call; a quotation mark is written once."""


def calls() -> Iterator[tuple[str, str]]:
    for form, names in _CALLS.items():
        for name in names.split():
            yield f"${name}", form.replace("'", '"').replace('1"b1', "1'b1").replace('32"d', "32'd")


def bench(statements: str, clocked: str) -> str:
    return f"""module tb;
  timeunit 1ns; timeprecision 1ps;
  localparam BOUND = 3;
  logic clk = 0, q;
  int n = 5, seed = 3, file = $fopen("vectors.txt", "r");
  int array [4];
  logic [63:0] w;
  real r;
  time t;
  string s;
  m dut (.*);
  always #5 clk = ~clk;
  always @(posedge clk) begin
    n <= n + 1;
{clocked}
  end
  initial begin
    #1;
{statements}
    #20 $finish;
  end
endmodule
"""


def statement(name: str, form: str) -> str:
    return "    " + form.replace("STATEMENT", name).replace("END", name) + ";\n"


@pytest.fixture(scope="module")
def simulator() -> VerilatorSimulator:
    return open_simulator()


def graded(simulator: VerilatorSimulator, text: str) -> Evaluated:
    request = Evaluate(unit=UNIT, submission=Testbench(text=text))
    return asyncio.run(simulator.evaluate(request))


def test_the_table_has_every_task() -> None:
    assert {name for name, _ in calls()} == TASKS - {"$"}


def test_every_allowed_system_task_runs(simulator: VerilatorSimulator) -> None:
    every = [(name, form) for name, form in calls() if "END" not in form]
    plain = "".join(statement(*each) for each in every if "CLOCKED" not in each[1])
    clocked = "".join(
        f"    if ({name}(n) == n) t = 0;\n" for name, form in every if "CLOCK" in form
    )
    found = graded(simulator, bench(plain, clocked))
    assert isinstance(found.outcome, Covered), found.outcome


@pytest.mark.parametrize("name", ["$fatal", "$finish", "$stop", "$exit"])
def test_tasks_that_end_a_simulation_are_graded(simulator: VerilatorSimulator, name: str) -> None:
    found = graded(simulator, bench(statement(name, dict(calls())[name]), ""))
    assert isinstance(found.outcome, SimulationFailed if name == "$fatal" else Covered)


def test_a_file_that_is_read_is_no_source(simulator: VerilatorSimulator) -> None:
    source = DataFile(name="helper.sv", text="module helper; initial $finish; endmodule\n")
    unit = msgspec.structs.replace(UNIT, data=(*UNIT.data, source))
    text = bench("", "").replace("m dut (.*);", "m dut (.*); helper h ();")
    found = asyncio.run(simulator.evaluate(Evaluate(unit=unit, submission=Testbench(text=text))))
    assert isinstance(found.outcome, CompileFailed)
    assert "Cannot find file containing module: 'helper'" in found.outcome.message
