"""Tests of the measurement of the gates' own errors."""

from itertools import islice

from coevolve.environments.tools.gates.gates import ToolGates
from tests.bench import gates
from tests.planted import draws
from tests.simulated import InProcessSimulator
from tests.spoiling.calibration import GateCalibration, Sample, by_label
from tests.spoiling.kinds import KINDS
from tests.spoiling.rates import GateRates, KindRate


async def rates(seed: int) -> GateRates:
    simulator = InProcessSimulator()
    gates = ToolGates(simulator, calls_per_turn=4)
    tasks = list(islice(draws(12), 12))
    labels = {task.task_id: "all" for task in tasks}
    calibration = GateCalibration(gates, simulator, Sample(given=9, planted=1, seed=seed))
    return await calibration.rates(by_label(labels, tasks))


async def test_own_tasks_are_admitted_and_visible_faults_refused() -> None:
    found = await rates(0)
    (own,) = found.given
    assert (own.kind, own.candidates, len(own.admitted)) == ("all", 9, 9)
    assert [each.kind for each in found.planted] == list(KINDS)
    assert all(each.candidates <= 1 for each in found.planted)
    assert sum(each.candidates for each in found.planted) >= 16
    assert sum(len(each.admitted) for each in found.planted if each.visible) <= 1
    unseen = {each.kind for each in found.planted if not each.visible and each.admitted}
    assert {"wrong verb", "negation", "gibberish"} <= unseen


def kind(*agreements: float) -> KindRate:
    return KindRate(kind="", candidates=9, admitted=(), refusals=(), agreements=agreements)


def test_the_threshold_lies_between_own_and_spoilt_tasks() -> None:
    apart = GateRates(given=(kind(0.8, 0.9),), planted=(kind(0.1, 0.2), kind(0.0)))
    assert apart.threshold() == 0.5
    mixed = GateRates(given=(kind(0.1, 0.8, 0.9),), planted=(kind(0.2, 0.3),))
    assert mixed.threshold() == (0.8 + 0.3) / 2
    assert GateRates(given=(kind(),), planted=(kind(),)).threshold() is None


async def test_the_bench_measures_an_environment_with_a_run_files_reader() -> None:
    config = gates.config_of("filesystem", ("seeds=2", "held_out=2"), 20, "quickstart")
    found = await gates.measured(config, Sample(given=0, planted=0, seed=0))
    assert sum(each.candidates for each in found.given) >= 4
    assert min(read for each in found.given for read in each.agreements) > 0.01
    assert gates.drawn(found)
