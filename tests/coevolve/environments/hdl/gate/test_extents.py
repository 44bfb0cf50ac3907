"""Excessive sizes and circular definitions are refused before compilation."""

from pathlib import Path

import pytest

from coevolve.environments.hdl.designs.folders import load_all
from coevolve.environments.hdl.gate.elaboration import find_top
from coevolve.environments.hdl.gate.extents import MOST_BITS, MOST_FIELD
from coevolve.environments.hdl.simulate.messages import Rejected, SourceFile, TimedOut, Unit

pytestmark = pytest.mark.timeout(120)

UNIT = Unit(
    name="m",
    files=(SourceFile(name="m.sv", text="module m (input logic a); endmodule\n"),),
    top="m",
)
DESIGNS = Path(__file__).parents[5] / "designs"


def bench(inside: str, outside: str = "") -> str:
    return f"{outside}\nmodule tb;\n{inside}\nendmodule\n"


def refused(inside: str, outside: str = "") -> str:
    """Return the reason, in the words of the prompt."""
    found = find_top(bench(inside, outside), UNIT, "tb")
    assert isinstance(found, Rejected), found
    first = found.violations[0]
    assert first.line >= 1
    assert first.column >= 1
    return " ".join(each.message for each in found.violations)


@pytest.mark.parametrize(
    "classes",
    [
        "class a extends a; endclass",
        "class a extends b; endclass class b extends a; endclass",
        "typedef class c; class a extends c; endclass class b extends a; endclass "
        "class c extends b; endclass",
        "interface class a extends b; endclass interface class b extends a; endclass",
        "class b #(type T = int) extends a#(T); endclass "
        "class a #(type T = int) extends b#(T); endclass",
        "package p; class a extends b; endclass class b extends p::a; endclass endpackage",
        "`define MORE(x, y) class x extends y; endclass\n`MORE(a, b) `MORE(b, a)",
    ],
)
def test_classes_that_extend_themselves_are_refused(classes: str):
    assert "class a extends itself" in refused("initial $finish;", classes)


def test_classes_of_one_name_in_several_scopes_are_not_circular():
    classes = """package p; class base; endclass class mid extends base; endclass endpackage
      package q; class base extends p::mid; endclass class leaf extends base; endclass endpackage"""
    assert find_top(bench("q::leaf made = new;", classes), UNIT, "tb") == "tb"


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        ('initial $display("%1000000000d", 1);', f"at most {MOST_FIELD}"),
        ('initial $display("%0.99999f", 1.5);', "wide"),
        ('`define F(n) `"%n`"\ninitial $display(`F(99999d), 1);', "wide"),
        ("int y; initial y = $countones({1000000000{1'b1}});", "maximum vector width"),
        ('string s; initial s = {100000000{"ab"}};', "maximum vector width"),
        ('initial $timeformat(-9, 2, "", 1001);', "the width of $timeformat"),
        ('localparam W = 99999; initial $timeformat(-9, W, "", 9);', "the precision of"),
        ('initial $timeformat(-1000000, 2, "", 9);', "the unit of $timeformat"),
        ("logic [99999999:0] v;", "too large"),
        ("byte v [2147483647];", f"at most {MOST_BITS}"),
        ("logic [1:0] v [100][100][100][100];", "200000000 bits"),
        ("int v [100000][100000];", "implementation limit"),
        ("localparam int P [1000000] = '{default: 7};", "exceeds the limit"),
        ("typedef enum {A[1000000]} e;", "enum members"),
        ("for (genvar i = 0; i < 100000; i++) begin wire w; end", "generate loop"),
        ("for (genvar i = 0; i < 9999; i++) for (genvar j = 0; j < 9999; j++) wire w;", "generate"),
        ("m u [1000000] (1'b0);", "exceeded maximum size"),
        ("m u [20][20][20] (1'b0);", "more than 4096 instances"),
        (
            "function automatic int f(int n); while (1) n++; return n; endfunction "
            "localparam P = f(0);",
            "step limit",
        ),
        ("function automatic int f(int n); return f(n); endfunction localparam P = f(0);", "depth"),
    ],
)
def test_excessive_sizes_are_refused(inside: str, words: str):
    assert words in refused(inside)


def test_recursion_without_an_end_is_refused():
    assert "depth" in refused("r #(0) u ();", "module r #(int N = 0); r #(N + 1) n (); endmodule")
    assert "recursive" in refused("c #(0) u;", "class c #(int N = 0); c #(N + 1) n; endclass")


def test_a_text_that_takes_too_long_to_read_is_refused():
    power = "localparam [99999:0] P = 100000'd3 ** 100000'd99999;"
    assert isinstance(find_top(bench(power), UNIT, "tb"), TimedOut)


@pytest.mark.parametrize(
    "inside",
    [
        "logic [7:0] memory [1 << 20]; initial memory[5] = 1;",
        'initial $display("%0d%% of %100s, 5%", 5, "x");',
        'int w = 99999; initial $timeformat(-9, 2, " ns", w);',
        'initial begin $timeformat(-15, 0, "", 0); $timeformat; end',
        "for (genvar i = 0; i < 1000; i++) begin : g wire w; end",
        "m u [100] (1'b0);",
        "function automatic int f(int n); return n < 2 ? n : f(n-1) + f(n-2); endfunction "
        "localparam P = f(15);",
        "nothing at_all is = declared",
    ],
)
def test_ordinary_sizes_are_accepted(inside: str):
    assert find_top(bench(inside), UNIT, "tb") == "tb"


@pytest.mark.parametrize("call", ['$display("%p", v)', "$display(v)", 's = $sformatf("%h", v)'])
def test_an_address_cannot_be_printed(call: str):
    bus = "interface bus; int x; endinterface"
    assert "no value" in refused(f"virtual bus v; bus b (); string s; initial {call};", bus)


@pytest.mark.parametrize("text", [r'"\xff"', r'"\377%d"', r'{"a", "\xc3"}'])
def test_a_string_that_is_not_utf8_is_refused(text: str):
    bus = "interface bus; int x; endinterface"
    inside = f"virtual bus v; bus b (); string s = {text}; initial $display(v);"
    assert "UTF-8" in refused(inside, bus)


def test_a_design_is_not_judged():
    huge = SourceFile(
        name="m.sv", text="module m (input logic a); byte v [2147483647]; endmodule\n"
    )
    unit = Unit(name="m", files=(huge,), top="m")
    assert find_top(bench("m u (1'b0);"), unit, "tb") == "tb"


def test_every_reference_testbench_is_accepted():
    found = [
        (design.design_id, quality)
        for design in load_all(DESIGNS)
        for quality, text in design.testbenches.items()
        if find_top(text, design.unit) != "tb"
    ]
    assert found == []
