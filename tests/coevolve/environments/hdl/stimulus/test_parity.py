from pathlib import Path

import numpy as np
import pytest

from coevolve.environments.hdl.designs.folders import load
from coevolve.environments.hdl.simulate.messages import Covered, Evaluate, Stimulus
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator
from coevolve.environments.hdl.stimulus.harness import Harness
from coevolve.environments.hdl.stimulus.language import format
from coevolve.environments.hdl.stimulus.random_program import draw

pytestmark = pytest.mark.hdl

DESIGNS = Path(__file__).parents[5] / "designs"
SPREAD = ("width_fifo", "seq_divider", "traffic_light", "crc_stream")
"""One design of each of four families."""


@pytest.fixture(scope="module")
def simulator() -> VerilatorSimulator:
    return open_simulator()


@pytest.mark.parametrize("name", SPREAD)
async def test_a_program_covers_what_its_testbench_covers(simulator, name):
    design = load(DESIGNS / name)
    unit = design.unit
    rng = np.random.default_rng(5)
    program = draw(rng, design.ports, unit.clock, unit.reset, design.file.literals, 60)
    request = Evaluate(unit=unit, submission=Stimulus(program=format(program)), seed=11)
    graded = await simulator.evaluate(request)
    harness = await Harness.open(unit, design.ports, simulator.toolchain, simulator.sandbox)
    (coverage,) = await harness.run([program], 11)
    await harness.close()
    assert isinstance(graded.outcome, Covered)
    assert graded.outcome.ended == "finish"
    assert graded.outcome.coverage == coverage
