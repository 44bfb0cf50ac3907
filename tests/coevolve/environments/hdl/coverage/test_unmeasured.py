"""A condition has at most 16 points, or none and a report names it."""

import asyncio
import json
from pathlib import Path

import pytest

from coevolve.environments.hdl.coverage.unmeasured import MOST_COMBINATIONS, unmeasured
from coevolve.environments.hdl.designs.rtl import elaborate
from coevolve.environments.hdl.simulate.messages import SourceFile, Unit
from coevolve.environments.hdl.simulate.verilator import open_simulator
from tests.commands import answered

pytestmark = pytest.mark.hdl

CONDITIONS = {
    "^x[2:0]": 8,
    "^x[3:0]": 16,
    "^x[4:0]": 0,
    "^x[5:0]": 0,
    "~^x": 0,
    "x[0] ^ x[1] ^ x[2] ^ x[3] ^ x[4]": 0,
    "^{x[2:0], a, b}": 0,
    "^{a, b, x[0]}": 8,
    "a && ^x": 0,
    "!(^x)": 0,
    "a && b": 3,
    "&x": 9,
    "|x[3:0] && a": 6,
    "(^x[1:0] && a) || b": 6,
    "a && b && x[0] && x[1] && x[2]": 6,
    "x == 3": 0,
}
"""Points of each condition; one without terms to combine has none and is not named."""


def unit() -> Unit:
    lines = (f"    if ({text}) q[{number}] = 1;" for number, text in enumerate(CONDITIONS))
    body = "\n".join(lines)
    text = (
        "module m (input logic [7:0] x, input logic a, b, output logic [31:0] q);\n"
        f"  always_comb begin q = 0;\n{body}\n  end\nendmodule\n"
    )
    return Unit(name="m", files=(SourceFile(name="m.sv", text=text),), top="m")


def test_a_condition_has_few_points_or_is_named():
    given = unit()
    points = asyncio.run(open_simulator().points(given))
    count = [sum(p.metric == "expr" and p.line == 3 + n for p in points) for n in range(16)]
    named = {int(each.split(":")[1]) - 3: each for each in unmeasured(elaborate(given))}
    for number, (text, expected) in enumerate(CONDITIONS.items()):
        assert count[number] == expected <= MOST_COMBINATIONS, text
        assert (number in named) == (expected == 0 and text != "x == 3"), text
    assert named[2] == "m.sv:5:9: ^x[4:0]"


@pytest.mark.parametrize(("bits", "points"), [(4, 19), (5, 3), (6, 3), (8, 3)])
def test_the_command_names_what_has_no_points(bits: int, points: int, tmp_path: Path):
    (tmp_path / "par.sv").write_text(
        f"module par (input logic [{bits - 1}:0] x, input logic a, b, output logic q, r);\n"
        "always_comb begin q = 0; r = 0; if (^x) q = 1; if (a && b) r = 1; end\nendmodule\n"
    )
    (tmp_path / "tb.sv").write_text(
        f"module tb; logic [{bits - 1}:0] x = 0; logic a = 0, b = 0, q, r; par dut(.*);\n"
        "initial begin #5 x = 1; #5 $finish; end endmodule\n"
    )
    words = ("--rtl", str(tmp_path / "par.sv"), "--dut", "par", str(tmp_path / "tb.sv"))
    answer = answered("hdl", "simulate", *words, "--json")
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["conditions_without_points"] == (["par.sv:2:37: ^x"] if bits > 4 else [])
    said = answered("hdl", "simulate", *words).stdout
    assert f"of {points} " in said
    assert ("no points, because it has too many combinations: par.sv" in said) == (bits > 4)
