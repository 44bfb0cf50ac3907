import re

import numpy as np
import pytest

from coevolve.environments.hdl.gate.elaboration import find_top
from coevolve.environments.hdl.gate.source import violations
from coevolve.environments.hdl.simulate.messages import Port, Reset, SourceFile, Unit
from coevolve.environments.hdl.stimulus.language import StimulusError, format
from coevolve.environments.hdl.stimulus.random_program import draw
from coevolve.environments.hdl.stimulus.testbench import render
from tests.small_designs import COUNTER, PORTS

UNIT = Unit(
    name="counter",
    files=(SourceFile(name="counter.sv", text=COUNTER),),
    top="counter",
    clock="clk",
    reset=Reset(port="rst", active="high"),
)


def test_a_printed_testbench_looks_hand_written():
    program = "rst 2; set up=1 step=9; step 5; rep 3; inv up; wait high=1 20; endrep; rand step"
    text = render(program, UNIT, PORTS, 1)
    assert "// 1. Reset for 2 cycles." in text
    assert "// 2. Set up = 1, step = 9; for 5 cycles." in text
    assert "    up = 1'd1;\n    random_step = 0; step = 4'd9;\n    repeat (5) tick();\n" in text
    assert "    // 3. 3 times: invert up; until high = 1 (at most 20 cycles).\n" in text
    assert "      repeat (20) if (high != 1'd1) tick();\n    end\n" in text
    assert "    // 4. Randomize step.\n" in text
    assert text.endswith("    clk = 0;\n    #5 $finish;\n  end\nendmodule\n")


def test_only_what_a_program_uses_is_declared():
    plain = render("set up=1; step 3", UNIT, PORTS, 1)
    assert not re.search(r"rng|draw|random_|chance_|apply_reset", plain)
    assert "chance_up" in render("prob up=3/8; step 3", UNIT, PORTS, 1)


def test_the_seed_changes_the_random_words_and_nothing_else():
    one, two = (render("rand step; step 3", UNIT, PORTS, seed).splitlines() for seed in (1, 2))
    differing = [pair for pair in zip(one, two, strict=True) if pair[0] != pair[1]]
    assert len(differing) == 1
    assert "rng" in differing[0][0]


def test_ports_may_be_called_like_the_parts_of_a_testbench():
    names = ("tb", "dut", "tick", "draw", "rng", "random_dut", "apply_reset", "tb_")
    ports = (PORTS[0], PORTS[1], *(Port(name=each, direction="in", width=1) for each in names))
    text = render("rst 1; rand dut tick; step 1", UNIT, ports, 1)
    declared = re.findall(r"^  (?:logic|bit|int)(?: \[[0-9:]+\])? (\w+)", text, re.M)
    declared += re.findall(r"^  (?:task|function) automatic (?:logic \[63:0\] )?(\w+)", text, re.M)
    assert len(declared) == len(set(declared))
    assert {"tb", "dut"}.isdisjoint(declared)
    for name in names:
        assert f"    .{name}(" in text


def test_every_program_passes_the_gate_and_parses():
    rng = np.random.default_rng(0)
    for statements in (1, 5, 20, 60):
        program = format(draw(rng, PORTS, "clk", UNIT.reset, (9,), statements))
        text = render(program, UNIT, PORTS, 3)
        assert violations(text, UNIT) == ()
        assert find_top(text, UNIT) == "tb"


def test_a_program_that_does_not_parse_is_refused_with_its_line():
    with pytest.raises(StimulusError) as caught:
        render("step 1\nset upp=1", UNIT, PORTS, 1)
    assert caught.value.line == 2
