import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.environments.hdl.simulate.messages import Port, Reset
from coevolve.environments.hdl.stimulus.language import StimulusError, format, parse
from coevolve.environments.hdl.stimulus.program import (
    MAX_CYCLES,
    MAX_DEPTH,
    MAX_STATEMENTS,
    ApplyReset,
    Await,
    Chance,
    Change,
    Drive,
    Program,
    Randomize,
    Repeat,
    Step,
    cost,
)
from coevolve.environments.hdl.stimulus.random_program import draw

RESET = Reset(port="rst_n", active="low")
PORTS = (
    Port(name="clk", direction="in", width=1),
    Port(name="rst_n", direction="in", width=1),
    Port(name="coin", direction="in", width=2),
    Port(name="cancel", direction="in", width=1),
    Port(name="data", direction="in", width=100),
    Port(name="vend", direction="out", width=1),
)


def read(program: str) -> Program:
    return parse(program, PORTS, "clk", RESET)


def refusal(program: str) -> str:
    with pytest.raises(StimulusError) as caught:
        read(program)
    return str(caught.value)


def test_every_statement_is_read():
    program = """
        rst 2; step 3          # two on one line
        set coin=3 cancel=1
        rand coin; prob cancel=2/8
        rep 4
          inc coin cancel
          wait vend=1 30
        endrep
        rol coin; inv coin; once coin
    """
    assert read(program).statements == (
        ApplyReset(cycles=2),
        Step(cycles=3),
        Drive(port="coin", word=3),
        Drive(port="cancel", word=1),
        Randomize(port="coin"),
        Chance(port="cancel", eighths=2),
        Repeat(
            times=4,
            body=(
                Change(port="coin", way="inc"),
                Change(port="cancel", way="inc"),
                Await(port="vend", word=1, cycles=30),
            ),
        ),
        Change(port="coin", way="rol"),
        Change(port="coin", way="inv"),
        Change(port="coin", way="once"),
    )


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("2", 2),
        ("0b10", 2),
        ("0x3", 3),
        ("max", 3),
        ("msb", 2),
        ("alt", 2),
    ],
)
def test_values_are_read_by_the_width_of_their_port(text, word):
    assert read(f"set coin={text}").statements == (Drive(port="coin", word=word),)


def test_a_wide_port_takes_words_of_64_bits():
    assert read("set data=max").statements == (Drive(port="data", word=2**64 - 1),)
    assert "'data' takes 0 to 18446744073709551615" in refusal("set data=18446744073709551616")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("step 1\nstp 3", "line 2: 'stp' is no statement; did you mean 'step'?"),
        ("set con=1", "line 1: 'con' is no input; did you mean 'coin'?"),
        ("set vend=1", "line 1: 'vend' is no input; there are coin, cancel, data"),
        ("wait coin=1 3", "line 1: 'coin' is no output; there are vend"),
        ("inv clk", "line 1: 'clk' is the clock; 'step n' makes n cycles of it"),
        ("rand rst_n", "line 1: 'rst_n' is the reset; 'rst n' applies it for n cycles"),
        ("set coin=4", "line 1: 'coin' takes 0 to 3, found 4"),
        ("set coin=-1", "line 1: a value is a number, max, msb or alt, found '-1'"),
        ("set coin", "line 1: 'set port=value ...' is required, found 'coin'"),
        ("set", "line 1: 'set port=value ...' is required, found 'set'"),
        ("step 1 2", "line 1: 'step n' is required, found 'step 1 2'"),
        ("step 0", f"line 1: a count is a number from 1 to {MAX_CYCLES}, found '0'"),
        ("prob cancel=8/8", "line 1: a chance is 1/8 to 7/8, found '8/8'; 'set' holds a value"),
        ("wait vend=1", "line 1: 'wait port=value n' is required, found 'wait vend=1'"),
        ("step 1; endrep", "line 1: 'endrep' needs a 'rep' before it"),
        ("step 1\nrep 2\nstep 1", "line 2: 'rep' needs an 'endrep' after it"),
    ],
)
def test_a_refusal_has_the_line_and_what_is_required(program, words):
    assert refusal(program) == words


def test_a_design_without_reset_has_no_reset_to_apply():
    with pytest.raises(StimulusError, match="this design has none"):
        parse("rst 2", PORTS, "clk", None)


def test_a_program_stays_within_its_limits():
    assert f"at most {MAX_CYCLES} cycles" in refusal("step 1\nrep 200\nstep 100\nendrep")
    assert refusal("step 1\nrep 200\nstep 100\nendrep").startswith("line 4")
    assert "executed statements" in refusal("rep 19000; rep 19000; inc coin; endrep; endrep")
    assert f"at most {MAX_STATEMENTS} statements" in refusal("inc coin\n" * (MAX_STATEMENTS + 1))
    assert f"{MAX_DEPTH} nested" in refusal("rep 2;" * 10_000)
    assert "characters" in refusal("#" * 100_000)


def test_the_cost_of_a_program_is_its_maximum():
    spent = cost(
        read("rst 2; rep 3; rep 2; step 5; wait vend=1 7; endrep; inc coin; endrep").statements
    )
    assert (spent.cycles, spent.executed, spent.written, spent.depth) == (74, 20, 6, 2)


@given(seed=st.integers(0, 2**32), statements=st.integers(1, 40))
@settings(max_examples=60)
def test_a_printed_program_parses_to_itself(seed, statements):
    rng = np.random.default_rng(seed)
    program = draw(rng, PORTS, "clk", RESET, (7, 2**40), statements)
    assert read(format(program)) == program


@given(text=st.text(alphabet="setprandincolwhbu x=/0123456789#;\ncoinverdt", max_size=80))
@settings(max_examples=200)
def test_any_text_is_parsed_or_refused(text):
    try:
        program = read(text)
    except StimulusError as error:
        program, line = Program(statements=()), error.line
    else:
        line = 1
    assert 1 <= line <= text.count("\n") + 1
    assert read(format(program)) == program
