import pytest
from msgspec.structs import replace

from coevolve.environments.hdl.evolution.messages import (
    DesignChange,
    DesignVariant,
    HarderThreshold,
    RegionGoal,
    Replaced,
)
from coevolve.environments.hdl.export.wording import asked, changed
from coevolve.environments.hdl.policy.task import DesignTask
from coevolve.environments.hdl.policy.transition import Blank
from tests.hdl_transitions import covered

TASK = DesignTask(
    design="fifo", form="testbench", instance="dut", state=Blank(), round=0, threshold=0.95
)


def test_a_task_from_nothing_asks_for_coverage():
    assert asked(TASK) == "cover 95 % of fifo"


def test_a_task_from_a_testbench_names_its_coverage():
    assert asked(replace(TASK, state=covered((1, 2), (3, 4)))) == "cover 95 % of fifo, from 62.5 %"


def test_a_goal_is_described_by_its_number_of_points():
    assert asked(replace(TASK, goal=(3,))) == "cover 1 point of fifo"
    assert asked(replace(TASK, goal=(3, 4))) == "cover 2 points of fifo"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (RegionGoal(design="fifo", points=(1,), start=0), "cover 1 point of fifo"),
        (
            RegionGoal(design="fifo", points=(1, 2), start=7),
            "cover 2 points of fifo, from the rollout at sequence 7",
        ),
        (HarderThreshold(design="fifo", than="fifo", threshold=0.97), "cover 97 % of fifo"),
        (
            DesignVariant(design="fifo", constants=(Replaced(old=16, new=255),)),
            "fifo with 0xff for 0x10",
        ),
    ],
)
def test_a_candidate_is_described_by_its_change(change: DesignChange, told: str):
    assert changed(change) == told
