"""Instances of tasks on designs are those that hold by execution."""

from collections.abc import Callable

import msgspec
import pytest

from coevolve.config.load import load_config
from coevolve.environments.hdl import parts
from coevolve.environments.hdl.config import HdlConfig
from coevolve.environments.hdl.curation.states import average
from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.designs.instances import DesignInstances
from coevolve.environments.hdl.designs.renaming import instance
from coevolve.environments.hdl.environment import Hdl
from coevolve.environments.hdl.policy.frontier import beginning
from coevolve.environments.hdl.policy.task import coverage_task, read_body
from coevolve.environments.hdl.simulate.grading import graded, grading
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.messages import (
    CompileFailed,
    Covered,
    Outcome,
    Point,
    Testbench,
)
from protocols.config import RunConfig
from protocols.tasks import Instantiated, Task, body_of
from tests.hdl_points import POINTS, all_but, covering
from tests.hdl_simulators import ScriptedSimulator
from tests.small_designs import counter

LIMITS = HdlConfig().limits
FAILED = CompileFailed(message="tb.sv:1:1: error: no port has this name")


def everything(testbench: str) -> Outcome:
    return Covered(coverage=covering(POINTS), ended="finish", slots=1, time=1, log="")


def little(testbench: str) -> Outcome:
    coverage = covering(all_but(*{each.name for each in POINTS[5:]}))
    return Covered(coverage=coverage, ended="finish", slots=1, time=1, log="")


def of_its_own(testbench: str) -> Outcome:
    """Fail the testbench with the design's own names."""
    return FAILED if testbench == counter().testbenches["good"] else everything(testbench)


@pytest.fixture(scope="module")
def config() -> RunConfig:
    return load_config("hdl_tiny")


@pytest.fixture
def task(config: RunConfig) -> Task:
    return beginning(counter(), config).task()


async def made(simulator: TestbenchSimulator, task: Task, seed: int = 5) -> Task | None:
    found = await DesignInstances([counter()], simulator, LIMITS).of([task], seed)
    return found.get(task.task_id)


async def test_an_instance_differs_in_its_design_alone(task: Task):
    other = await made(ScriptedSimulator(of_its_own), task)
    assert other is not None
    assert other.task_id == "counter~5"
    assert other.origin == Instantiated(root="counter", instance=5)
    body = msgspec.structs.replace(read_body(task.body), design="counter~5")
    assert read_body(other.body) == body


@pytest.mark.parametrize(
    "outcome", [everything, little, lambda testbench: FAILED], ids=["memorized", "weak", "broken"]
)
async def test_an_instance_that_does_not_hold_is_none(
    outcome: Callable[[str], Outcome], task: Task
):
    assert await made(ScriptedSimulator(outcome), task) is None


async def test_unknown_designs_have_no_instances(task: Task):
    simulator = ScriptedSimulator(of_its_own)
    body = msgspec.structs.replace(read_body(task.body), design="counter.c1")
    assert await made(simulator, msgspec.structs.replace(task, body=body_of(body))) is None
    assert not simulator.requests


@pytest.mark.hdl
@pytest.mark.timeout(600)
@pytest.mark.parametrize("design_id", ["vend_fsm", "alu16"])
async def test_an_instance_has_the_points_of_its_design_and_needs_its_own_testbench(
    design_id: str, config: RunConfig
):
    environment = Hdl(config)
    (task,) = (each for each in environment.scored_tasks() if each.task_id == design_id)
    service = environment.simulator()
    try:
        found = await environment.instances([task], 1, [service])
        assert coverage_task(found[design_id]).design == f"{design_id}~1"
        (design,) = (each for each in parts.designs(config) if each.design_id == design_id)
        other = instance(design, 1)
        (simulator,) = parts.clients([service])
        assert await places(simulator, other) == await places(simulator, design)
        assert await covered(simulator, other) == await covered(simulator, design)
    finally:
        await service.close()


@pytest.mark.hdl
@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
async def test_every_design_has_an_instance(config: RunConfig):
    environment = Hdl(config)
    tasks = environment.scored_tasks()
    service = environment.simulator()
    try:
        found = await environment.instances(tasks, 1, [service])
    finally:
        await service.close()
    assert found.keys() == {task.task_id for task in tasks}


async def places(simulator: TestbenchSimulator, design: Design) -> list[tuple[object, ...]]:
    def place(point: Point) -> tuple[object, ...]:
        return point.metric, point.file, point.line, point.column, point.instance

    return [place(point) for point in await simulator.points(design.unit)]


async def covered(simulator: TestbenchSimulator, design: Design) -> object:
    submission = Testbench(text=design.testbenches["good"])
    evaluated = await simulator.evaluate(grading(design, submission, LIMITS))
    outcome = graded(submission, evaluated).outcome
    assert isinstance(outcome, Covered)
    return average(outcome.coverage)
