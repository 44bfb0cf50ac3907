"""A small design with coverage points made by hand."""

from collections.abc import Sequence

from coevolve.environments.hdl.coverage.points import point_text
from coevolve.environments.hdl.simulate.messages import (
    CODE_METRICS,
    Coverage,
    KindCount,
    Metric,
    Point,
    SourceFile,
    Unit,
)

TOP = """module top (input logic clk, input logic [3:0] d, output logic [7:0] count);
  typedef enum logic [1:0] {IDLE, RUN, DONE} state_t;
  logic [3:0] mem [0:3];
  always_ff @(posedge clk)
    if (d == 4'd3 && count[0]) count <= count + 1;
    else count <= d ? 8'd1 : 8'd2;
  leaf u_leaf (.clk);
endmodule
"""
LEAF = (
    "module leaf (input logic clk);\n  logic q;\n  always_ff @(posedge clk) q <= !q;\nendmodule\n"
)


def point(
    metric: Metric, line: int, name: str, *, column: int = 1, instance: str = "", lines: str = ""
) -> Point:
    return Point(
        metric=metric,
        file="leaf.sv" if instance else "top.sv",
        line=line,
        column=column,
        instance=instance,
        name=name,
        lines=lines,
    )


def toggles(line: int, *bits: str, instance: str = "") -> list[Point]:
    return [
        point("toggle", line, f"{bit}:{edge}", instance=instance)
        for bit in bits
        for edge in ("0->1", "1->0")
    ]


POINTS: tuple[Point, ...] = tuple(
    sorted(
        [
            *(point("fsm", 2, name) for name in ("IDLE", "RUN", "DONE")),
            *(point("fsm", 2, arc) for arc in ("IDLE->RUN", "RUN->DONE", "DONE->IDLE")),
            point("line", 4, "block", lines="4"),
            point("line", 3, "block", instance="u_leaf", lines="3"),
            point("branch", 5, "if", lines="5"),
            point("branch", 5, "else", column=2, lines="6"),
            point("branch", 6, "cond_then", column=9),
            point("expr", 5, "(d==1 && count[0]==1) => 1", column=7),
            point("expr", 5, "(d==0) => 0", column=7),
            point("expr", 5, "(count[0]==0) => 0", column=7),
            *toggles(1, "clk", *(f"count[{bit}]" for bit in range(8))),
            *toggles(3, *(f"mem[{word}][{bit}]" for word in range(4) for bit in range(4))),
            *toggles(2, "q", instance="u_leaf"),
        ]
    )
)


def unit(unreachable: Sequence[Point] = ()) -> Unit:
    return Unit(
        name="top",
        files=(SourceFile(name="leaf.sv", text=LEAF), SourceFile(name="top.sv", text=TOP)),
        top="top",
        unreachable=tuple(point_text(each) for each in unreachable),
    )


def covering(hit: Sequence[Point], *, unreachable: Sequence[Point] = ()) -> Coverage:
    """Return the coverage of a run that hit these."""
    hits = sum(1 << POINTS.index(each) for each in hit)
    counted = [each for each in POINTS if each not in unreachable]
    return Coverage(
        points_hash="5e7",
        hits=hits.to_bytes((len(POINTS) + 7) // 8, "little"),
        kinds=tuple(
            KindCount(
                metric=metric,
                covered=sum(each.metric == metric and each in hit for each in counted),
                total=sum(each.metric == metric for each in counted),
            )
            for metric in CODE_METRICS
        ),
    )


def all_but(*names: str) -> list[Point]:
    """Return every point but those with these names."""
    known = {each.name for each in POINTS}
    assert known >= set(names), set(names) - known
    return [each for each in POINTS if each.name not in names]
