import numpy as np

from coevolve.environments.hdl.simulate.messages import Port, Reset
from coevolve.environments.hdl.stimulus.program import (
    MAX_CYCLES,
    MAX_STATEMENTS,
    ApplyReset,
    Drive,
    cost,
)
from coevolve.environments.hdl.stimulus.random_program import draw

RESET = Reset(port="rst", active="high")
PORTS = (
    Port(name="clk", direction="in", width=1),
    Port(name="rst", direction="in", width=1),
    Port(name="enable", direction="in", width=1),
    Port(name="data", direction="in", width=64),
    Port(name="done", direction="out", width=1),
)


def test_the_same_seed_draws_the_same_program():
    drawn = [draw(np.random.default_rng(3), PORTS, "clk", RESET, (), 20) for _ in range(2)]
    other = draw(np.random.default_rng(4), PORTS, "clk", RESET, (), 20)
    assert drawn[0] == drawn[1] != other


def test_a_program_begins_with_the_reset_and_has_as_many_statements_as_asked_for():
    program = draw(np.random.default_rng(0), PORTS, "clk", RESET, (), 15)
    assert program.statements[0] == ApplyReset(cycles=2)
    assert len(program.statements) == 15


def test_long_programs_stay_within_the_limits():
    program = draw(np.random.default_rng(0), PORTS, "clk", RESET, (), 10_000)
    assert cost(program.statements).written <= MAX_STATEMENTS
    assert cost(program.statements).cycles <= MAX_CYCLES


def test_literals_are_driven():
    rng = np.random.default_rng(0)
    drawn = [draw(rng, PORTS, "clk", RESET, (0xC0FFEE,), 20) for _ in range(20)]
    words = [each.word for one in drawn for each in one.statements if isinstance(each, Drive)]
    assert 0xC0FFEE in words


def test_a_design_with_nothing_but_a_clock_gets_cycles():
    program = draw(np.random.default_rng(0), PORTS[:1], "clk", None, (), 10)
    assert all(not isinstance(each, Drive) for each in program.statements)
