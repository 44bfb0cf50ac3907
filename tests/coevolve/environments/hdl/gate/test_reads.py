"""References into the design that only read it are proven; nothing that writes it is."""

import pytest
from msgspec.structs import replace

from coevolve.environments.hdl.gate.elaboration import reads
from coevolve.environments.hdl.gate.levels import admitted
from coevolve.environments.hdl.gate.source import only_references, violations
from coevolve.environments.hdl.simulate.messages import DataFile, Rejected, SourceFile, Unit

RTL = """module m (input logic clk, output logic [3:0] q);
  logic [3:0] s; logic [3:0] mem [4]; event e; int list [$];
  part p ();
  task set; s = 1; endtask
endmodule
module part; logic [3:0] inner; endmodule
"""
UNIT = Unit(
    name="m",
    top="m",
    files=(SourceFile(name="m.sv", text=RTL),),
    data=(DataFile(name="rom/x.hex", text="0\n"),),
)
BENCH = """module tb; logic clk; logic [3:0] q, v; logic [3:0] a [4]; event e2; {outside}
  m dut (.clk, .q);
  task automatic by_ref(ref logic [3:0] x); x = 1; endtask
  task automatic by_value(input logic [3:0] x); v = x; endtask
  task automatic back(output logic [3:0] x); x = 1; endtask
  initial begin {inside} end
endmodule
module helper(input logic [3:0] i, output logic [3:0] o); assign o = i; endmodule
"""


def refused(inside: str, outside: str = "") -> list[str]:
    text = BENCH.format(inside=inside, outside=outside)
    found = violations(text, UNIT)
    if found and only_references(found):
        found = violations(text, UNIT, reads=reads(text, UNIT))
    return [each.message for each in found]


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ('$display("%d", dut.s); v = dut.mem[2] + 1;', ""),
        ("wait (dut.s == 0); @(posedge dut.s[0]); #1;", ""),
        ("if (tb.dut.p.inner != 3) v = 0; by_value(dut.s);", ""),
        ("v = a[dut.s]; repeat (dut.s) v++;", ""),
        ("assert (dut.s < 9) else $error;", "wire [3:0] w = dut.p.inner;"),
        ("v = w;", "wire [3:0] w; assign w = dut.s; helper h (.i(dut.s), .o(v));"),
        ("", "assert property (@(posedge clk) dut.s < 9); always @(dut.s) v = dut.s;"),
    ],
)
def test_a_reference_that_only_reads_is_allowed(inside: str, outside: str):
    assert refused(inside, outside) == []


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("dut.s = 1;", ""),
        ("dut.p.inner <= 1;", ""),
        ("{v, dut.s} = 1;", ""),
        ("dut.s++;", ""),
        ("dut.mem[1][0] = 1;", ""),
        ("dut.set();", ""),
        ("by_ref(dut.s);", ""),
        ("back(dut.s);", ""),
        ("->dut.e;", ""),
        ("dut.list.push_back(1);", ""),
        ('$readmemh("rom/x.hex", dut.mem);', ""),
        ('void\'($sscanf("1", "%d", dut.s));', ""),
        ('void\'($fscanf(v, "%d", dut.s));', ""),
        ("void'($cast(dut.s, v));", ""),
        ("`W(dut)", "`define W(x) x.s = 1;"),
        ("`W", "`define W v = dut.s; dut.s = v;"),
        ("v = dut.s;", "helper h (.i(v), .o(dut.s));"),
        ("", "assign dut.s = v;"),
        ("", "clocking c @(posedge clk); output x = dut.s; endclocking"),
        ("v = dut.absent;", ""),
    ],
)
def test_a_reference_that_could_write_is_refused(inside: str, outside: str):
    assert any("a reference into 'dut'" in each for each in refused(inside, outside))


@pytest.mark.parametrize(
    ("call", "allowed"),
    [
        ('$readmemh("rom/x.hex", a);', True),
        ('$readmemb("rom/x.hex", a, 0, 3);', True),
        ('$readmemh("/etc/passwd", a);', False),
        ('$readmemh("x.hex", a);', False),
        ('$readmemh({"rom/", "x.hex"}, a);', False),
        ('$fopen("rom/x.hex");', False),
        ('v = $fopen("rom/x.hex", "r"); v = $fscanf(v, "%h", a[0]);', True),
        ('v = $fopen("rom/x.hex", "rb"); $fclose(v);', True),
        ('v = $fopen("rom/x.hex", "r+");', False),
        ('v = $fopen("rom/x.hex", {"r", "+"});', False),
        ('v = $fopen("rom/x.hex", "r" + 8\'d0);', False),
        ('v = $fopen("coverage.dat", "r");', False),
        ('`define O(m) $fopen("rom/x.hex", m)\nv = `O("w");', False),
    ],
)
def test_only_given_files_are_read(call: str, allowed: bool):
    assert (refused(call) == []) is allowed


def test_nothing_reads_inside_of_a_design_that_keeps_a_secret():
    text = BENCH.format(inside="v = dut.s;", outside="")
    assert admitted(text, UNIT) == "tb"
    kept = admitted(text, replace(UNIT, keeps_secret=True))
    assert isinstance(kept, Rejected)
    assert admitted(text, replace(UNIT, keeps_secret=True), level="trusted") == "tb"
