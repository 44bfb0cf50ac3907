from msgspec.structs import replace

from coevolve.environments.hdl.export.exporters import asked
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
