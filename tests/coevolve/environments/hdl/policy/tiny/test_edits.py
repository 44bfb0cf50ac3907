"""The edits that the tiny hardware policy can write, and their meaning."""

from collections.abc import Sequence

import numpy as np
import pytest

from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.designs.folders import load_all
from coevolve.environments.hdl.parts import DESIGNS
from coevolve.environments.hdl.policy.tiny.edits import edits, read_edit, words_of
from coevolve.environments.hdl.policy.tiny.vocabulary import IDS, LAST, PLAN_WORDS, WORDS
from coevolve.environments.hdl.simulate.messages import Port
from coevolve.environments.hdl.stimulus.language import format, parse
from coevolve.environments.hdl.stimulus.program import (
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
from protocols.generation import END, Grammar
from tests.small_designs import counter

COUNTER = counter(literals=(9, 200))
"""Drives ``up`` (one bit) and ``step`` (four bits); reads ``count`` and ``high``."""


def ids(text: str) -> tuple[int, ...]:
    return tuple(IDS[word] for word in text.split())


def walk(grammar: Grammar, rng: np.random.Generator) -> list[int]:
    state, said = 0, list[int]()
    while state != END:
        edges = grammar.states[state]
        token, state = edges[int(rng.integers(len(edges)))]
        said.append(token)
    return said


def accepts(grammar: Grammar, token_ids: Sequence[int]) -> bool:
    state = 0
    for token in token_ids:
        following = dict(grammar.states[state]) if state != END else {}
        if token not in following:
            return False
        state = following[token]
    return state == END


@pytest.mark.parametrize(
    "text",
    [
        "run8",
        "set in1 =c0 step2 run1",
        "rand in1 prob in0 4/8 inv in0 once in1 loop64",
        "wait out0 =max rst run64",
        "rand all rand all step1 run1024",
        "off on seq in1 inc all loop16",
    ],
)
def test_an_edit_is_statements_and_a_word_for_how_they_run(text: str):
    assert accepts(edits(COUNTER), ids(text))


@pytest.mark.parametrize(
    "text",
    [
        "loop4",  # nothing to repeat
        "set in0 =2 run1",  # the input has one bit
        "set in1 =c1 run1",  # 200 does not fit four bits
        "prob in1 4/8 run1",  # the input has more than one bit
        "rand in2 run1",  # no such input
        "inv all run1",
        "seq in0 run1",  # no constant of one bit
        "set in0 run1",
        "step1 step1 step1 step1 step1 run1",
        "run1 run1",
        "step1",
    ],
)
def test_the_grammar_excludes_invalid_edits(text: str):
    assert not accepts(edits(COUNTER), ids(text))


def test_an_edit_is_read_as_statements():
    assert read_edit(COUNTER, ids("rst set in1 =alt prob in0 7/8 step4 run8")) == (
        ApplyReset(cycles=2),
        Drive(port="step", word=0b1010),
        Chance(port="up", eighths=7),
        Step(cycles=4),
        Step(cycles=8),
    )
    assert read_edit(COUNTER, ids("rand in1 wait out0 =c1 loop4")) == (
        Repeat(
            times=4,
            body=(
                Randomize(port="step"),
                Await(port="count", word=200, cycles=64),
                Step(cycles=1),
            ),
        ),
    )


def test_constants_are_driven_one_per_cycle():
    shows = counter(literals=(9, 200, 3))
    assert read_edit(shows, ids("off on seq in1 run1")) == (
        Drive(port="up", word=0),
        Drive(port="step", word=0),
        Drive(port="up", word=1),
        Drive(port="step", word=9),
        Step(cycles=1),
        Drive(port="step", word=3),
        Step(cycles=1),
        Step(cycles=1),
    )


def test_inc_all_applies_to_inputs_of_several_bits():
    body = (Change(port="step", way="inc"), Step(cycles=1))
    assert read_edit(COUNTER, ids("inc all loop4")) == (Repeat(times=4, body=body),)


def test_all_applies_to_the_inputs_that_a_program_drives():
    assert read_edit(COUNTER, ids("rand all run1")) == (
        Randomize(port="up"),
        Randomize(port="step"),
        Step(cycles=1),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "at its end for how it runs"),
        ("step1 step2", "at its end for how it runs"),
        ("set in1 run1", "needs to be complete"),
        ("set in5 =1 run1", "'in5' is no port"),
        ("set in0 =max run1", "'=max' is no value of up"),
        ("=1 run1", "begins no statement"),
        ("inv all run1", "'all' is no port"),
    ],
)
def test_an_invalid_edit_is_refused_with_a_reason(text: str, words: str):
    with pytest.raises(ValueError, match=words):
        read_edit(COUNTER, ids(text))


def test_each_value_has_only_its_first_word():
    port = Port(name="p", direction="in", width=3)
    assert words_of(port, (3, 6, 5, 8)) == {
        "=0": 0,
        "=1": 1,
        "=2": 2,
        "=3": 3,
        "=max": 7,
        "=msb": 4,
        "=c1": 6,
        "=c2": 5,
    }


@pytest.mark.parametrize("design", load_all(DESIGNS), ids=lambda each: each.design_id)
def test_every_edit_of_a_grammar_gives_a_program_within_the_limits(design: Design):
    grammar, rng = edits(design), np.random.default_rng(0)
    unit = design.unit
    for _ in range(20):
        said = walk(grammar, rng)
        assert said[-1] in LAST
        program = Program(statements=read_edit(design, said))
        assert parse(format(program), design.ports, unit.clock, unit.reset) == program
        assert cost(program.statements).excess() == ""


def test_words_are_unique():
    words = (*WORDS, *PLAN_WORDS)
    assert len(words) == len(IDS) == len(set(words))
