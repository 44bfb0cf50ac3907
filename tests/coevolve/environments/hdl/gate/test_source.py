import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.environments.hdl.gate.rules import MOST_BYTES, MOST_TOKENS, MOST_VIOLATIONS
from coevolve.environments.hdl.gate.source import violations
from coevolve.environments.hdl.simulate.messages import SourceFile, Unit

RTL = """`define STEP 4
package kinds; typedef logic [3:0] nibble; endpackage
interface bus_if (input logic clk); logic req; endinterface
module counter #(parameter N = 4) (input logic clk, output logic [N-1:0] q); endmodule
"""
UNIT = Unit(name="counter", files=(SourceFile(name="counter.sv", text=RTL),), top="counter")
DESIGNS = Path(__file__).parents[5] / "designs"

PIECES = (
    *("`define ", "A", "(", "x", ")", "`A", "`A(", "``", '`"', '"', "\\", "\n", "$", "dut", "."),
    *("#", "[", "]", "counter ", "force ", "/*", "*/", "//", "`ifdef ", "`else", "`endif", "é"),
    *("\\\n", " ", "{", "}", ",", "=", "module ", "`", "1", "'h", "$dumpfile", "import "),
)


def messages(text: str, instance: str = "") -> list[str]:
    return [each.message for each in violations(text, UNIT, instance=instance)]


def tb(body: str) -> str:
    return f"module tb;\n  counter dut (.clk(clk), .q(q));\n{body}\nendmodule\n"


def test_an_ordinary_testbench_passes() -> None:
    text = """`timescale 1ns/1ps
`define CHECK(c, m = "no") if (!(c)) \\
  $error(`"c`", m)
`ifdef VERILATOR
`define HALF 5
`else
`define HALF 10
`endif
module tb;
  import kinds::*;
  class item; extern function void show(); int count; endclass
  logic clk = 0; logic [3:0] q; int queue[$];
  bus_if bus (clk);
  virtual interface bus_if handle = bus;
  counter #() dut (.clk, .q);
  always #(`HALF)clk = ~clk;
  initial begin
    item it = new; it.count = 8'd`STEP;
    bus.req = 1;
    $dumpfile("dump.vcd"); $dumpvars(0, tb, dut);
    `CHECK(f(q, 1) == (2), "wrong");
    queue[$].x = queue[$-1];
    if (q)disable fork; // $system, force dut.q
    $display("`include $system(x) force dut.q %m");
    $finish;
  end
endmodule : tb
"""
    assert messages(text) == []


def test_a_violation_has_its_place() -> None:
    (found,) = violations(tb("  initial\n    force clk = 1;"), UNIT)
    assert (found.line, found.column) == (4, 5)
    assert found.message.startswith("'force' may not be used")


@pytest.mark.parametrize(
    "body",
    [
        "initial dut.q = 1;",
        "initial tb.dut . q = 1;",
        "initial x = tb.many[3].dut/* */.q;",
        "initial \\dut .q = 1;",
        "counter a (), b ();\ninitial x = b.q;",
        "counter many[1:0] ();\ninitial x = many[0].q;",
        "initial counter.q = 1;",
    ],
)
def test_references_past_the_ports_are_refused(body: str) -> None:
    assert any(
        "drive and watch the design through its ports" in each for each in messages(tb(body))
    )


def test_the_named_instance_counts_as_the_design() -> None:
    text = "module tb; initial unseen.q = 1; endmodule"
    assert messages(text) == []
    assert messages(text, instance="unseen") != []


@pytest.mark.parametrize("given_", ["#(8)", "#(.N(8))", "#8"])
@pytest.mark.parametrize(
    ("inside", "secret", "free"),
    [
        ('initial $display("%d", $clog2(N));', False, True),
        ("", True, False),
        ("reg m [4]; initial $readmemh(N, m);", False, False),
        ("integer f; initial f = $fopen(N);", False, False),
        ('import "DPI-C" function int open(input string n);', False, False),
    ],
)
def test_a_part_may_have_parameters_where_they_cannot_name_a_file(
    given_: str, inside: str, secret: bool, free: bool
) -> None:
    part = RTL.replace("q); endmodule", "q); part p (); endmodule")
    part += f"module part #(parameter N = 8); {inside} endmodule\n"
    files = (SourceFile(name="c.sv", text=part),)
    unit = Unit(name="counter", files=files, top="counter", keeps_secret=secret)
    found = violations(f"module tb; part {given_} p (); counter {given_} dut (); endmodule", unit)
    told = [] if free else ["part has its own parameters; leave out #"]
    assert [each.message for each in found] == told


@pytest.mark.parametrize(
    "text",
    ["module counter; endmodule", "package kinds; endpackage", "interface bus_if; endinterface"],
)
def test_the_design_is_not_redefined(text: str) -> None:
    (message,) = messages(text)
    assert "is part of the design" in message


@pytest.mark.parametrize(
    "text",
    [
        "`define M(x) $dis``x",
        "`define M(display) $display(1)",
        "`define A 1\n`define W $write\nmodule tb; initial `W`A; endmodule",
        "`define M(x) $write\nmodule tb; initial `M(1)memh; endmodule",
        "module tb; initial $write/**/memh(1); endmodule",
        "`define M fo\\\nrce",
        "`define I `in\n`I clude",
        '`" "x" `"',
        "`define verilator_config",
        "`define D a\n`define D dut",
    ],
)
def test_building_names_from_pieces_is_refused(text: str) -> None:
    assert messages(text) != []


def test_macros_are_expanded_before_the_search_for_references() -> None:
    hidden = "`define INSIDE(name) name.q\n`define WHO dut\n" + tb("initial `INSIDE(`WHO) = 1;")
    assert any("reference into 'dut'" in each for each in messages(hidden))


def test_macros_of_the_design_are_known() -> None:
    assert messages(tb("initial q = `STEP;")) == []
    assert messages(tb("initial q = `STRIDE;")) != []


def test_foreign_functions_are_refused_whatever_names_their_language() -> None:
    assert messages('import "DPI-C" function int f();') != []
    assert messages('`define L "DPI-C"\nimport `L function int f();') != []
    assert messages('`define L `"DPI-C`"\nexport `L function f;') != []
    assert messages("import kinds::*; export kinds::*;") == []


def test_waves_need_a_plain_file_name() -> None:
    assert messages('initial $dumpfile("dump.vcd");') == []
    for name in ('"/tmp/x"', '"../x"', "name", '{"a", "b"}', '"a" "b"'):
        assert messages(f"initial $dumpfile({name});") != []


def test_the_number_of_violations_is_limited() -> None:
    assert len(messages("$system; " * 100)) == MOST_VIOLATIONS
    (message,) = messages("x" * (MOST_BYTES + 1))
    assert str(MOST_BYTES) in message


def test_bytes_that_are_not_text_are_refused() -> None:
    for text in ("a\0b", "a\rb", "\ud800", '"""x"""', "// x \\\ny"):
        assert messages(text) != []
    assert messages("module tb;\r\nendmodule\r\n") == []


@pytest.mark.parametrize(
    "text",
    [
        "`define A(x) x x\n" + "`A(" * 40 + "1" + ")" * 40,
        "`define A(x) x\n" + "`A(" * 15000 + "1" + ")" * 15000,
        "`define B0 1\n" + "".join(f"`define B{n + 1} `B{n} `B{n}\n" for n in range(40)) + "`B40",
        "(" * 60000,
        "dut[" * 15000,
        "counter #(" * 6000,
        "`define A(x) x\n" + "`A(`A(1) " * 6000,
    ],
)
def test_no_text_takes_long(text: str) -> None:
    started = time.thread_time()
    violations(text, UNIT, instance="dut")
    assert time.thread_time() - started < 5


def calls(deed: Callable[[], object]) -> int:
    """Return the number of Python functions that were called."""
    made = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal made
        made += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        deed()
    finally:
        sys.setprofile(before)
    return made


FORMALS = ", ".join(f"a{number}" for number in range(4000))


@pytest.mark.parametrize(
    "text",
    [
        "`define B0\n{}`B40",
        "`define B0 `__FILE__\n{}`B40",
        "`define E()\n`define B0 `E()\n{}`B40",
        "`define E(x)\n`define B0 `E(x)\n{}`B40",
        f"`define E({FORMALS})\n" + "`E() " * 6000,
        "`define E(x)\n`define A `E(1" + ", x" * 8000 + ")\n" + "`A " * 8000,
    ],
)
def test_macros_that_expand_to_nothing_are_limited_too(text: str) -> None:
    doubling = "".join(f"`define B{n + 1} `B{n} `B{n}\n" for n in range(40))
    bomb = text.format(doubling)
    assert calls(lambda: violations(bomb, UNIT)) < 10 * MOST_TOKENS
    assert any("expand to more than" in each for each in messages(bomb))


@settings(max_examples=200)
@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)))
def test_any_text_gets_an_answer(text: str) -> None:
    for each in violations(text, UNIT, instance="dut"):
        assert 1 <= each.line <= text.count("\n") + 1
        assert each.column >= 1


def test_the_reference_testbenches_of_all_designs_pass() -> None:
    files = sorted(DESIGNS.glob("*/testbenches/*.sv"))
    assert files
    for file in files:
        rtl = tuple(
            SourceFile(name=path.name, text=path.read_text())
            for path in sorted(file.parents[1].glob("*.sv"))
        )
        unit = Unit(name=file.parents[1].name, files=rtl, top="unknown")
        assert violations(file.read_text(), unit, instance="dut") == (), file


def test_modules_that_only_testbenches_use_are_theirs() -> None:
    """References into a helper do not touch the design."""
    rtl = """module top (input logic clk); leaf #(2) u (.clk); endmodule
module leaf #(parameter N = 1) (input logic clk); endmodule
module ticker #(parameter N = 1) (output logic clk); int count; endmodule : ticker
module around #(parameter N = 1) (); ticker #(N) t (); top dut (.clk(t.clk)); endmodule
"""

    def found(module: str, more: str = "") -> list[str]:
        files = (SourceFile(name="all.sv", text=rtl + more),)
        text = f"module tb; {module} #(.N(5)) u_x (); initial u_x.count = 3; endmodule\n"
        unit = Unit(name="top", files=files, top="top")
        return [each.message[:22] for each in violations(text, unit)]

    refused = ["a reference into 'u_x'"]
    assert [found("leaf"), found("ticker"), found("around")] == [refused, [], refused]
    assert found("ticker", "bind top ticker t2 ();\n") == refused
    assert found("ticker", "`define MADE ticker\n") == refused
