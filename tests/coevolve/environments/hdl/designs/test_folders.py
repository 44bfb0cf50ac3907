"""Everything in ``designs/`` loads, has no copies, and reaches the coverage that it should."""

from collections import Counter
from pathlib import Path

import pytest

from coevolve.environments.hdl.designs.admission import (
    FEWEST_MUTANTS,
    FEWEST_POINTS,
    FEWEST_WORDS,
    MOST_POINTS,
    kept_apart,
)
from coevolve.environments.hdl.designs.design import GOOD_AT_LEAST, POOR_AT_MOST, Design, Quality
from coevolve.environments.hdl.designs.folders import load, load_all
from coevolve.environments.hdl.designs.qualify import admit
from coevolve.environments.hdl.simulate.messages import Covered, Evaluate, Testbench
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator

ROOT = Path(__file__).parents[5] / "designs"
NAMES = sorted(file.parent.name for file in ROOT.glob("*/design.yaml"))

FEWEST_DESIGNS = 32
ADMITTED_WHOLE = ("combo_lock",)
"""A design with a secret; the command admits the others."""

MEASURED = sorted({*NAMES} - {*ADMITTED_WHOLE})
EACH = 4
"""One design in this number is measured by `make test`."""


@pytest.fixture(scope="module")
def designs() -> tuple[Design, ...]:
    return load_all(ROOT)


@pytest.fixture(scope="module")
def simulator() -> VerilatorSimulator:
    return open_simulator()


def test_there_are_designs_of_every_kind(designs: tuple[Design, ...]) -> None:
    assert len(designs) >= FEWEST_DESIGNS
    assert sum(bool(design.file.secret) for design in designs) >= len(designs) / 4
    families = Counter(design.file.family for design in designs)
    assert min(families.values()) >= 2
    splits = Counter(design.file.split for design in designs)
    assert splits["held_out"] >= len(designs) / 5


def test_designs_for_training_are_kept_apart_from_held_out_ones(
    designs: tuple[Design, ...],
) -> None:
    assert [str(refusal) for refusal in kept_apart(designs)] == []


def test_each_specification_is_long_enough(designs: tuple[Design, ...]) -> None:
    assert len(designs) == 32
    for design in designs:
        assert design.file.top == design.design_id
        assert len(design.specification.split()) >= FEWEST_WORDS, design.design_id
        assert len(design.mutants) >= FEWEST_MUTANTS, design.design_id
        assert design.file.points is not None, design.design_id
        assert FEWEST_POINTS <= design.file.points.count <= MOST_POINTS, design.design_id
        if design.file.secret:
            assert design.file.literals, design.design_id


@pytest.mark.hdl
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if number % EACH == 0 else pytest.mark.exhaustive)
        for number, name in enumerate(MEASURED)
    ],
)
async def test_a_design_has_its_frozen_points_and_its_testbenches_reach_what_they_should(
    name: str, simulator: VerilatorSimulator
) -> None:
    design = load(ROOT / name)
    frozen = design.file.points
    assert frozen is not None
    assert len(await simulator.points(design.unit)) == frozen.count

    async def average(quality: Quality) -> float:
        submission = Testbench(text=design.testbenches[quality])
        request = Evaluate(unit=design.unit, submission=submission, seed=design.file.seed)
        outcome = (await simulator.evaluate(request)).outcome
        assert isinstance(outcome, Covered)
        assert outcome.ended == "finish"
        return outcome.coverage.overall_average

    assert await average("good") >= max(GOOD_AT_LEAST, design.file.threshold)
    assert await average("poor") <= POOR_AT_MOST


@pytest.mark.hdl
@pytest.mark.exhaustive
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ADMITTED_WHOLE)
async def test_a_design_is_admitted(name: str, simulator: VerilatorSimulator) -> None:
    admission = await admit(load(ROOT / name), simulator)
    assert [str(refusal) for refusal in admission.refusals] == []
    assert admission.measured.random
