"""Only the design's own instance earns coverage, even if a testbench uses its name elsewhere."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import cast

import pytest
from pyslang.ast import InstanceBodySymbol, InstanceSymbol, PortSymbol, Symbol

from coevolve.environments.hdl.coverage import scopes
from coevolve.environments.hdl.coverage.scopes import (
    MOST_INLINED,
    Scope,
    find_duts,
    read_scopes,
    sharing,
)
from coevolve.environments.hdl.designs.folders import load_all
from coevolve.environments.hdl.designs.rtl import elaborate
from coevolve.environments.hdl.simulate.messages import (
    Covered,
    Evaluate,
    Evaluated,
    NotCovered,
    SourceFile,
    Testbench,
    Unit,
)
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator

pytestmark = pytest.mark.timeout(600)

DESIGNS = Path(__file__).parents[5] / "designs"

HEADER = """
    // MODULE INSTANCE STATE
    Vtb___024root                  TOP;
    Vtb_tb                         TOP__tb;
    Vtb_wrap__W3                   TOP__tb__w;
    Vtb_m                          TOP__tb__w__dut;
    Vtb_m__N1                      TOP__tb__w__dut__inner;
    Vtb_m___05Flike                TOP__tb__m___05Flike;
"""
SOURCE = """
    TOP__tb.ctor(this, "tb");
    TOP__tb__w.ctor(this, "tb.w");
    TOP__tb__w__dut.ctor(this, "tb.w.dut");
    TOP__tb__w__dut__inner.ctor(this, "tb.w.dut.inner");
    TOP__tb__m___05Flike.ctor(this, "tb.m__like");
    // Setup each module's pointers to their submodules
    TOP.__PVT__tb = &TOP__tb;
    TOP__tb.__PVT__w = &TOP__tb__w;
    TOP__tb__w.__PVT__dut = &TOP__tb__w__dut;
    TOP__tb__w__dut.__PVT__inner = &TOP__tb__w__dut__inner;
    TOP__tb.__PVT__m___05Flike = &TOP__tb__m___05Flike;
"""

MODEL = r"""
VL_ATTR_COLD void Vtb_tb___configure_coverage(Vtb_tb* vlSelf, bool first) {
    vlSelf->__vlCoverInsert(c + 0, first, true, "a\"\\.sv", 3, 24, "", "v_line/tb", "block");
    vlSelf->__vlCoverInsert(c + 2, first, true, "m.sv", 4, 24, ".w.dut.x", "v_line/x", "block");
}
VL_ATTR_COLD void Vtb_m___configure_coverage(Vtb_m* vlSelf, bool first) {
    vlSelf->__vlCoverInsert(c + 0, first, true, "m.sv", 4, 24, ".x", "v_line/x", "block");
}
"""

PAIR = """
module part(input clk, input a, input b, output logic q);
  always_ff @(posedge clk) q <= a ^ b;
endmodule
module pair(input clk, input a0, b0, a1, b1, output logic q0, q1);
  part p0(.clk, .a(a0), .b(b0), .q(q0));
  part p1(.clk, .a(a1), .b(b1), .q(q1));
endmodule
"""

ONE_INPUT = """
module tb;
  logic clk = 0, still = 0, moved = 0;
  part own(.clk, .a(moved), .b(moved), .q());
  pair dut(.clk, .a0(still), .b0(still), .a1(moved), .b1(still), .q0(), .q1());
  always #5 clk = ~clk;
  initial begin
    repeat (5) @(negedge clk) moved = ~moved;
    $finish;
  end
endmodule
"""
"""The inputs of one instance of a part are constant, and those of another are equal."""

GENERIC = """
module cell_ #(parameter W = 2) (input logic clk, input logic [W-1:0] d, output logic [W-1:0] q);
  logic [W-1:0] last;
  always_ff @(posedge clk) begin
    last <= d;
    if (d == 0) q <= last;
    else if (d[0] && last[0]) q <= ~d;
    else q <= q + 1'b1;
  end
endmodule
module tree #(parameter N = 2) (input logic clk, input logic [1:0] d, output logic [1:0] q);
  logic [1:0] a, b__c;
  generate
    if (N > 0) begin : deep
      tree #(.N(N - 1)) tree (.clk, .d, .q(a));
      cell_ #(.W(2)) cell__x[1:0] (.clk, .d({d, a}), .q());
    end else begin : leaf
      cell_ c_ (.clk, .d, .q(a));
    end
  endgenerate
  always_ff @(posedge clk) if (d == 3) b__c <= a;
  assign q = b__c;
endmodule
"""
"""A design with everything that affects paths: recursion, parameters, blocks, arrays,
underscores."""


NOISE = """logic [127:0] noise = 0;
  always #1 noise = {$urandom, $urandom, $urandom, $urandom};"""


@dataclass(frozen=True, kw_only=True)
class Inside:
    """An instance inside a design."""

    path: str
    """Path without the design's own name."""

    module: str
    inputs: tuple[tuple[str, int], ...]


def units() -> list[Unit]:
    known = [design.unit for design in load_all(DESIGNS)]
    generic = SourceFile(name="tree.sv", text=GENERIC)
    return [unit for unit in known if insides(unit)] + [
        Unit(name="tree", files=(generic,), top="tree")
    ]


def insides(unit: Unit) -> list[Inside]:
    rtl = elaborate(unit)
    found: list[Inside] = []

    def visit(node: object) -> None:
        if isinstance(node, InstanceSymbol):
            path = node.hierarchicalPath.removeprefix(f"{unit.top}.")
            name = node.body.definition.name
            found.append(Inside(path=path, module=name, inputs=inputs(node.body)))

    rtl.top.visit(visit)
    return found


def inputs(body: InstanceBodySymbol) -> tuple[tuple[str, int], ...]:
    ports = cast("Sequence[Symbol]", body.portList)
    return tuple(
        (port.name, port.type.bitWidth)
        for port in ports
        if isinstance(port, PortSymbol) and port.direction.name == "In"
    )


def driven(ports: Sequence[tuple[str, int]]) -> str:
    """Return connections of each port to bits of its own that change at random."""
    starts = accumulate((width for _, width in ports), initial=0)
    pairs = zip(ports, starts, strict=False)
    return ", ".join(f".{name}(noise[{start} +: {width}])" for (name, width), start in pairs)


def bench(unit: Unit, trick: str, outside: str = "") -> str:
    """Return a testbench whose own instance gets no stimulus while ``trick`` gets random input."""
    still = ", ".join(f".{name}({width}'d0)" for name, width in inputs(elaborate(unit).top))
    return (
        f"{outside}\nmodule tb;\n  {NOISE}\n  {unit.top} dut ({still});\n"
        f"  {trick}\n  initial #400 $finish;\nendmodule\n"
    )


def tricks(unit: Unit) -> Iterator[tuple[str, str]]:
    """Yield impostors: code inside the testbench, and code outside of it."""
    top = inputs(elaborate(unit).top)
    for each in insides(unit)[:3]:
        pins, module, path = driven(each.inputs), each.module, each.path
        yield f"{module} \\dut.{path} ({pins});", ""
        yield f"if (1) begin : g {module} \\dut.{path} ({pins}); end", ""
        yield f"if (1) begin : \\dut.g {module} x ({pins}); end", ""
        yield f"if (1) begin : \\dut {module} \\{path} ({pins}); end", ""
        yield "wrap w ();", f"module wrap; {inner(module, pins, 'tb.dut.' + path)} endmodule"
        yield f"wrap \\dut.{path} ();", f"module wrap; {inner(module, pins, 'x')} endmodule"
        yield f"`FAKE (dut.{path} )", f"`define FAKE(name) {module} \\name ({pins});"
        yield f"{module} dut__DOT__{path.replace('.', '__DOT__')} ({pins});", ""
        yield f"{module} others[1:0] ({pins});", ""
        yield f"{module} \\dut.{path}[0] ({pins});", ""
        yield f"bind {unit.top} {module} \\{path.rpartition('.')[2]} ({pins});", ""
    pins = driven(top)
    yield f"{unit.top} second ({pins});", ""
    yield f"{unit.top} second[0:0] ({pins});", ""
    yield f"{unit.top} \\dut.second ({pins});", ""
    yield f'{unit.top} \\dut.second" ({pins});', ""
    yield f"{unit.top} \\dut ({pins});", ""
    yield f"if (1) begin : g {unit.top} dut ({pins}); end", ""
    yield "wrap w ();", f"module wrap; {noisy(f'{unit.top} dut ({pins});')} endmodule"
    yield "wrap dut_ ();", f"module wrap; {noisy(f'{unit.top} dut ({pins});')} endmodule"


def inner(module: str, pins: str, name: str) -> str:
    return noisy(f"{module} \\{name} ({pins});")


def noisy(body: str) -> str:
    return f"{NOISE} {body}"


def graded(simulator: VerilatorSimulator, unit: Unit, text: str) -> Evaluated:
    request = Evaluate(unit=unit, submission=Testbench(text=text))
    return asyncio.run(simulator.evaluate(request))


@pytest.fixture(scope="module")
def simulator() -> VerilatorSimulator:
    return open_simulator()


def test_every_instance_is_read_with_its_holders():
    read = {scope.path: scope for scope in read_scopes(HEADER, SOURCE)}
    assert list(read) == ["tb", "tb.w", "tb.w.dut", "tb.w.dut.inner", "tb.m__like"]
    assert read["tb.w.dut.inner"].within[:2] == ("TOP__tb__w__dut", "TOP__tb__w")


def test_an_instance_inside_of_another_is_a_part_of_it():
    read = read_scopes(HEADER, SOURCE)
    assert find_duts(read, "m") == ("tb.w.dut",)
    assert find_duts(read, "m__like") == ("tb.m__like",)
    assert isinstance(find_duts(read, "n"), NotCovered)


def test_an_inlined_instance_is_where_the_code_of_its_holder_says():
    read = {scope.member: scope for scope in read_scopes(HEADER, SOURCE, MODEL)}
    assert read["TOP__tb__w__dut.x"].path == read["TOP__tb.w.dut.x"].path == "tb.w.dut.x"
    inside = [scope for name, scope in read.items() if name != "TOP__tb.w.dut.x"]
    assert find_duts(inside, "m") == ("tb.w.dut",)
    found = find_duts([*read.values()], "m")
    assert isinstance(found, NotCovered)
    assert "called tb.w.dut.x, as if it were" in found.message


@pytest.mark.parametrize(
    ("inside", "outside", "counters", "shared"),
    [
        (2, 0, (0, 2, 2), {"part"}),
        (1, 1, (0, 2, 2), {"part"}),
        (2, 0, (0, 2, 4), set[str]()),
        (1, 0, (0, 2, 2), set[str]()),
        (MOST_INLINED, 9, (0, 2, 2), {"part"}),
        (MOST_INLINED + 1, 0, (0, 2, 2), set[str]()),
    ],
)
def test_parts_share_counters_that_are_joined_in_several_instances(
    inside: int, outside: int, counters: Sequence[int], shared: set[str]
):
    unit = Unit(name="pair", files=(SourceFile(name="pair.sv", text=PAIR),), top="pair")
    read = [Scope(path="tb.dut", module="pair", within=("TOP__tb", "TOP"), member="TOP__tb__dut")]
    for within, count in (
        (("TOP__tb__dut", "TOP__tb", "TOP"), inside),
        (("TOP__tb", "TOP"), outside),
    ):
        read += [
            Scope(path="", module="part__W2", within=within, member=f"{within[0]}__{number}")
            for number in range(count)
        ]
    inserts = "".join(f"    f(0, vlSelf->__Vcoverage + {each}, first);\n" for each in counters)
    model = f"void Vtb_part__W2___configure_coverage(Vtb_part* vlSelf) {{\n{inserts}}}\n"
    assert sharing(read, model, unit) == shared


def test_the_named_one_of_several_instances_is_measured():
    two = [
        Scope(path=f"tb.{name}", module="m", within=("TOP__tb", "TOP"), member=f"TOP__tb__{name}")
        for name in ("a", "b")
    ]
    assert find_duts(two, "m", "b") == ("tb.b",)
    several = find_duts(two, "m")
    assert isinstance(several, NotCovered)
    assert "tb.a, tb.b" in several.message


def instance(path: str, module: str) -> Scope:
    return Scope(path=path, module=module, within=("TOP__tb", "TOP"), member=f"TOP__{path}")


@pytest.mark.parametrize("module", ["m__02Ex", "m__023x", "m___05Fx", "m___05FN2", "mx", "m_"])
def test_a_module_with_a_name_like_the_design_s_is_not_the_design(module: str):
    assert find_duts([instance("tb.a", "m"), instance("tb.b", module)], "m") == ("tb.a",)


def test_an_instance_with_other_parameters_is_not_measured():
    found = find_duts([instance("tb.a", "m__N2")], "m")
    assert isinstance(found, NotCovered)
    assert "needs the design's own parameters" in found.message
    assert find_duts([instance("tb.a", "m___05Fn")], "m__n") == ("tb.a",)


@pytest.mark.parametrize("path", ["tb.du__t.x", "tb.du___05Ft.x", "tb.du___05Ft", "tb.du__t"])
def test_underscores_are_compared_as_in_coverage_files(path: str):
    found = find_duts([instance("tb.du__t", "m"), instance(path, "n")], "m")
    assert isinstance(found, NotCovered)
    assert path in found.message


def test_an_instance_with_ambiguous_underscores_is_not_measured():
    found = find_duts([instance("tb.du___05Ft", "m")], "m")
    assert isinstance(found, NotCovered)
    assert "needs a plain path" in found.message


@pytest.mark.hdl
@pytest.mark.parametrize(
    "unit",
    [
        pytest.param(unit, id=unit.name, marks=pytest.mark.exhaustive if number else ())
        for number, unit in enumerate(units())
    ],
)
def test_no_other_instance_earns_anything(simulator: VerilatorSimulator, unit: Unit):
    plain = graded(simulator, unit, bench(unit, ""))
    assert isinstance(plain.outcome, Covered)
    harmless = 0
    for trick, outside in tricks(unit):
        found = graded(simulator, unit, bench(unit, trick, outside))
        if isinstance(found.outcome, Covered):
            assert found.outcome.coverage == plain.outcome.coverage, trick
            harmless += 1
        else:
            assert found.reward == 0.0, trick
    assert harmless


@pytest.mark.hdl
def test_without_the_check_of_paths_an_impostor_would_earn(
    simulator: VerilatorSimulator, monkeypatch: pytest.MonkeyPatch
):
    unit = next(unit for unit in units() if unit.name == "debouncer")
    trick, _ = next(tricks(unit))
    refused = graded(simulator, unit, bench(unit, trick))
    assert isinstance(refused.outcome, NotCovered)
    assert "an instance that is not inside of tb.dut is called tb.dut.left" in str(refused.outcome)

    def nothing(scope: Scope, dut: str) -> bool:
        return False

    monkeypatch.setattr(scopes, "prints_inside", nothing)
    plain = graded(simulator, unit, bench(unit, ""))
    forged = graded(simulator, unit, bench(unit, trick))
    assert forged.reward > plain.reward + 0.04


@pytest.mark.hdl
def test_a_signal_counts_apart_from_those_that_equal_it_in_another_instance(
    simulator: VerilatorSimulator,
):
    unit = Unit(name="pair", files=(SourceFile(name="pair.sv", text=PAIR),), top="pair")
    found = graded(simulator, unit, ONE_INPUT).outcome
    assert isinstance(found, Covered)
    toggled = {
        f"{point.instance}.{point.name.partition(':')[0]}"
        for index, point in enumerate(simulator.prepare(unit).points.points)
        if point.metric == "toggle" and found.coverage.hits[index // 8] >> index % 8 & 1
    }
    assert toggled == {".clk", ".a1", ".q1", "p0.clk", "p1.clk", "p1.a", "p1.q"}
