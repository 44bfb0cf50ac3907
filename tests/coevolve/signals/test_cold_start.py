"""Tests of exploration where no rule fires."""

import msgspec
import pytest

from coevolve.environments.rewards_only import TaskObserver
from coevolve.signals.detector import Detector, DetectorState, Exploring
from protocols.config import RunConfig
from protocols.evolution import Anything, GroupSummary, Signal
from protocols.evolution_config import SignalsConfig, SynthesizerConfig
from protocols.learner_config import LearnerConfig
from tests.coevolve.signals.histories import visit

CONFIG = SignalsConfig(kinds=("boundary",))


def failing(groups: int) -> list[GroupSummary]:
    return [visit(0, group=n, version=n, task_id=f"t{n}") for n in range(groups)]


def judged(visits: list[GroupSummary], exploring: Exploring) -> list[Signal]:
    detector = Detector(CONFIG, (), 100, exploring)
    return [signal for each in visits for signal in detector.judge(each)]


@pytest.mark.parametrize(
    ("exploring", "groups"),
    [
        (Exploring(4, 3), [3, 7, 11]),
        (Exploring(4, 1), [3]),
        (Exploring(1, 2), [0, 1]),
        (Exploring(4, 0), []),
        (Exploring(2, 2, idle=7), [1, 3, 10, 17]),
        (Exploring(2, 0, idle=9), [8, 17]),
    ],
)
def test_without_a_signal_it_explores_after_each_so_many_groups(
    exploring: Exploring, groups: list[int]
):
    found = judged(failing(20), exploring)
    assert [each.signal_id for each in found] == [f"cold_start-g{n}-0" for n in groups]
    assert {each.about for each in found} <= {Anything()}
    assert {each.kind for each in found} <= {"cold_start"}


@pytest.mark.parametrize(("idle", "later"), [(0, 0), (8, 2)])
def test_the_first_signal_ends_the_cold_start_and_begins_to_count_anew(idle: int, later: int):
    visits = [*failing(5), visit(4, group=5, version=5), *failing(20)]
    kinds = [each.kind for each in judged(visits, Exploring(4, 9, idle))]
    assert kinds == ["cold_start", "boundary"] + later * ["cold_start"]


@pytest.mark.parametrize("cut", range(0, 13, 3))
def test_a_run_that_is_resumed_explores_as_often(cut: int):
    visits = failing(12)
    exploring = Exploring(4, 1, idle=3)
    whole = judged(visits, exploring)
    first, rebuilt, other = (Detector(CONFIG, (), 100, exploring) for _ in range(3))
    before: list[Signal] = []
    for each in visits[:cut]:
        before += (signals := first.judge(each))
        for message in (each, *signals):
            rebuilt.recall(message)
    other.state = msgspec.msgpack.decode(msgspec.msgpack.encode(rebuilt.state), type=DetectorState)
    after = [signal for each in visits[cut:] for signal in other.judge(each)]
    assert before + after == whole


@pytest.mark.parametrize(
    ("arm", "explores"),
    [("full", True), ("random", True), ("placebo", True), ("static", False), ("uniform", False)],
)
def test_every_arm_that_makes_tasks_explores_equally_often(arm: str, explores: bool):
    config = RunConfig(
        name="test",
        arm=arm,  # type: ignore[arg-type]
        learner=LearnerConfig(groups_per_step=2),
        synthesizer=SynthesizerConfig(cold_start=2, idle_steps=2),
        signals=CONFIG,
    )
    observer = TaskObserver(config)
    found = [signal for each in failing(9) for signal in observer.signals(each)]
    assert [each.signal_id for each in found] == (
        ["cold_start-g1-0", "cold_start-g3-0", "cold_start-g7-0"] if explores else []
    )
