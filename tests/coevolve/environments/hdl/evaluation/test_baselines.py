from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.environments.hdl.evaluation.baselines.structural import structural_programs
from coevolve.environments.hdl.evaluation.baselines.target import Target, target_of
from coevolve.environments.hdl.evaluation.baselines.uniform import longest, random_programs
from coevolve.environments.hdl.simulate.messages import Coverage, KindCount, Port, Reset
from coevolve.environments.hdl.stimulus.language import format, parse
from coevolve.environments.hdl.stimulus.program import (
    MAX_CYCLES,
    Drive,
    Program,
    Repeat,
    Statement,
    cost,
)
from tests.bench.hdl_baselines import best_of
from tests.small_designs import counter

TARGET = target_of(counter(literals=(9, 200)))


@st.composite
def targets(draw: st.DrawFn) -> Target:
    """Return port lists with and without clock, reset and constants."""
    directions = draw(st.lists(st.sampled_from(("in", "out")), min_size=1, max_size=12))
    ports = [
        Port(name=f"p{number}", direction=direction, width=draw(st.integers(1, 70)))
        for number, direction in enumerate(directions)
    ]
    clock, reset = draw(st.booleans()), draw(st.booleans())
    ports += [Port(name="clk", direction="in", width=1)] * clock
    ports += [Port(name="rst", direction="in", width=1)] * reset
    return Target(
        ports=tuple(ports),
        clock="clk" if clock else "",
        reset=Reset(port="rst", active="low") if reset else None,
        literals=tuple(draw(st.lists(st.integers(0, 2**64 - 1), max_size=40))),
    )


def words(statements: Iterable[Statement]) -> Iterator[tuple[str, int]]:
    for statement in statements:
        match statement:
            case Drive(port=port, word=word):
                yield port, word
            case Repeat(body=body):
                yield from words(body)
            case _:
                pass


@given(targets())
def test_structural_programs_are_valid_for_any_ports(target: Target) -> None:
    programs = list(islice(structural_programs(target), 3))
    assert programs
    for program in programs:
        read = parse(format(program), target.ports, target.clock, target.reset)
        assert format(read) == format(program)


def test_structural_programs_are_the_same_every_time() -> None:
    assert [*structural_programs(TARGET)] == [*structural_programs(TARGET)]


def test_the_first_structural_program_drives_extremes_and_constants() -> None:
    driven = {*words(next(structural_programs(TARGET)).statements)}
    assert {("up", 0), ("up", 1), ("step", 0), ("step", 15), ("step", 9)} <= driven
    assert ("step", 200) not in driven


def test_the_longest_random_run_uses_all_cycles() -> None:
    assert cost(longest(TARGET).statements).cycles == MAX_CYCLES


def test_random_programs_depend_on_the_generator_alone() -> None:
    def drawn(seed: int) -> list[Program]:
        return [*islice(random_programs(TARGET, np.random.default_rng(seed)), 5)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def covering(covered: int) -> Coverage:
    kinds = (KindCount(metric="line", covered=covered, total=100),)
    return Coverage(points_hash="", hits=b"", kinds=kinds)


async def test_best_of_n_makes_n_calls_and_returns_the_first_best() -> None:
    programs = [*islice(random_programs(TARGET, np.random.default_rng(1)), 4)]
    calls: list[Program] = []

    async def score(tried: Sequence[Program]) -> Sequence[Coverage]:
        calls.extend(tried)
        return [covering(covered) for _, covered in zip(tried, (30, 70, 70), strict=True)]

    best = await best_of(iter(programs), 3, score)
    assert calls == programs[:3]
    assert best.program == programs[1]


async def test_best_of_no_programs_is_refused() -> None:
    async def score(tried: Sequence[Program]) -> Sequence[Coverage]:
        raise AssertionError(tried)

    with pytest.raises(ValueError, match="best of 5 needs a program to try, found none"):
        await best_of(iter(()), 5, score)
