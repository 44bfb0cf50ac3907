"""A small design under verification, built without a folder, with changes for a test."""

from typing import Any

import msgspec

from coevolve.environments.hdl.designs.design import Design, DesignFile, Mutant
from coevolve.environments.hdl.simulate.messages import Port, Reset, SourceFile, Unit

COUNTER = """\
module counter (
  input  logic clk,
  input  logic rst,
  input  logic up,
  input  logic [3:0] step,
  output logic [7:0] count,
  output logic high
);
  always_ff @(posedge clk) begin
    if (rst) count <= 8'd0;
    else if (up) count <= count + {4'd0, step};
    else if (step == 4'd9) count <= 8'd200;
  end
  assign high = count > 8'd127;
endmodule
"""

PORTS = (
    Port(name="clk", direction="in", width=1),
    Port(name="rst", direction="in", width=1),
    Port(name="up", direction="in", width=1),
    Port(name="step", direction="in", width=4),
    Port(name="count", direction="out", width=8),
    Port(name="high", direction="out", width=1),
)

POOR = """\
module tb;
  logic clk = 0, rst = 1, up = 0, high;
  logic [3:0] step = 0;
  logic [7:0] count;
  counter dut (.*);
  always #5 clk = ~clk;
  initial begin
    repeat (2) @(posedge clk);
    rst <= 0;
    repeat (4) @(posedge clk);
    $finish;
  end
endmodule
"""

GOOD = POOR.replace(
    "repeat (4) @(posedge clk);",
    "up <= 1; step <= 5; repeat (60) @(posedge clk);\n"
    "    up <= 0; step <= 9; repeat (2) @(posedge clk);",
)

MUTANTS = (
    Mutant(
        name="adds_one_too_many",
        file="counter.sv",
        find="count + {4'd0, step}",
        replace="count + {4'd0, step} + 8'd1",
        bug="every step counts one more",
    ),
    Mutant(
        name="high_too_late",
        file="counter.sv",
        find="count > 8'd127",
        replace="count > 8'd250",
        bug="high is told at the very end",
    ),
)


def counter(name: str = "counter", **changes: Any) -> Design:
    """Return the counter as a design, with fields of `DesignFile` or `Design` changed."""
    of_file = {key: changes.pop(key) for key in [*changes] if key in DesignFile.__struct_fields__}
    file = DesignFile(
        top="counter",
        family="counters",
        split="train",
        files=("counter.sv",),
        clock="clk",
        reset=Reset(port="rst", active="high"),
        threshold=0.9,
    )
    unit = Unit(
        name=name,
        files=(SourceFile(name="counter.sv", text=COUNTER),),
        top="counter",
        clock="clk",
        reset=Reset(port="rst", active="high"),
    )
    made = Design(
        design_id=name,
        file=msgspec.structs.replace(file, **of_file),
        unit=unit,
        ports=PORTS,
        specification="It counts. " * 100,
        testbenches={"poor": POOR, "mid": POOR, "good": GOOD},
        mutants=MUTANTS,
    )
    return msgspec.structs.replace(made, **changes)
