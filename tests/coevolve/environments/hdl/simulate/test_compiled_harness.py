"""Stimulus programs graded by compiled designs, compared with Verilator."""

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from coevolve.environments.hdl.simulate.compiled_harness import HarnessSimulator
from coevolve.environments.hdl.simulate.messages import (
    BadStimulus,
    CompileFailed,
    Covered,
    Evaluate,
    Evaluated,
    SimulationLimits,
    SourceFile,
    Stimulus,
    Submission,
    Testbench,
    Unit,
)
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator
from tests.small_designs import GOOD, counter

pytestmark = pytest.mark.hdl

CLOCKED = counter().unit
GATES = Unit(
    name="gates",
    files=(
        SourceFile(
            name="gates.sv",
            text="module gates (input logic a, input logic [3:0] b, output logic y);\n"
            "  assign y = a ? ^b : &b;\nendmodule\n",
        ),
    ),
    top="gates",
)


@pytest.fixture(scope="module")
def verilator() -> VerilatorSimulator:
    return open_simulator()


@pytest.fixture(scope="module")
def harnessed(verilator: VerilatorSimulator) -> Iterator[HarnessSimulator]:
    simulator = HarnessSimulator(verilator, most_open=1)
    yield simulator
    asyncio.run(simulator.close())


def asked(unit: Unit, submission: Submission, **changes: object) -> Evaluate:
    return msgspec.structs.replace(Evaluate(unit=unit, submission=submission, seed=3), **changes)


def without_costs(evaluated: Evaluated) -> Evaluated:
    return msgspec.structs.replace(evaluated, stages=())


@pytest.mark.parametrize(
    ("unit", "program"),
    [
        (CLOCKED, "rst 2\nset up=1 step=5\nrep 3\nstep 2\nrand step\nendrep"),
        (GATES, "rand a b\nstep 4\nset b=max\nstep 1"),
    ],
)
async def test_a_program_is_graded_as_verilator_grades_its_testbench(
    harnessed: HarnessSimulator, verilator: VerilatorSimulator, unit: Unit, program: str
):
    request = asked(unit, Stimulus(program=program))
    expected = await verilator.evaluate(request)
    assert isinstance(expected.outcome, Covered)
    assert without_costs(await harnessed.evaluate(request)) == without_costs(expected)
    assert await harnessed.points(unit) == await verilator.points(unit)


async def test_programs_that_arrive_together_get_their_own_results(harnessed: HarnessSimulator):
    texts = [f"rst 1\nset up=1 step={n}\nstep 9" for n in (0, 1, 15)]
    requests = [asked(CLOCKED, Stimulus(program=text), seed=s) for s in (1, 2) for text in texts]
    together = await asyncio.gather(*map(harnessed.evaluate, requests))
    alone = [await harnessed.evaluate(request) for request in requests]
    assert list(map(without_costs, together)) == list(map(without_costs, alone))
    assert len({each.reward for each in together}) == len(texts)


async def test_a_program_that_does_not_parse_is_the_policys_fault(harnessed: HarnessSimulator):
    evaluated = await harnessed.evaluate(asked(CLOCKED, Stimulus(program="rst 1\nset down=1")))
    assert isinstance(evaluated.outcome, BadStimulus)
    assert (evaluated.outcome.line, evaluated.reward, evaluated.testbench) == (2, 0.0, "")


async def test_submissions_that_the_harness_cannot_grade_go_to_verilator(
    harnessed: HarnessSimulator,
):
    whole = await harnessed.evaluate(asked(CLOCKED, Testbench(text=GOOD)))
    assert whole.reward > 1
    cut_off = asked(CLOCKED, Stimulus(program="step 90"), limits=SimulationLimits(slots=20))
    outcome = (await harnessed.evaluate(cut_off)).outcome
    assert isinstance(outcome, Covered)
    assert (outcome.ended, outcome.slots) == ("slot_limit", 20)


@pytest.mark.parametrize(
    "submission", [Testbench(text="// \ud800\nmodule"), Stimulus(program="wait \udfff")]
)
async def test_a_text_that_is_not_utf8_is_graded(
    harnessed: HarnessSimulator, submission: Submission
):
    evaluated = await harnessed.evaluate(asked(CLOCKED, submission))
    assert isinstance(evaluated.outcome, BadStimulus | CompileFailed)
    assert "\ud800" not in evaluated.testbench
    msgspec.msgpack.encode(evaluated)
