"""Tests of exploration before any signal."""

import msgspec
import pytest

from coevolve.environments.rewards_only import TaskObserver
from coevolve.signals.detector import ColdStart, Detector, DetectorState
from protocols.config import RunConfig
from protocols.evolution import Anything, GroupSummary, Signal
from protocols.evolution_config import SignalsConfig, SynthesizerConfig
from protocols.learner_config import LearnerConfig
from tests.coevolve.signals.histories import visit

CONFIG = SignalsConfig(kinds=("boundary",))


def failing(groups: int) -> list[GroupSummary]:
    return [visit(0, group=n, version=n, task_id=f"t{n}") for n in range(groups)]


def judged(visits: list[GroupSummary], cold_start: ColdStart) -> list[Signal]:
    detector = Detector(CONFIG, (), 100, cold_start)
    return [signal for each in visits for signal in detector.judge(each)]


@pytest.mark.parametrize(
    ("cold_start", "groups"),
    [
        (ColdStart(4, 3), [3, 7, 11]),
        (ColdStart(4, 1), [3]),
        (ColdStart(1, 2), [0, 1]),
        (ColdStart(4, 0), []),
    ],
)
def test_without_a_signal_it_explores_after_each_so_many_groups_up_to_a_limit(
    cold_start: ColdStart, groups: list[int]
):
    found = judged(failing(20), cold_start)
    assert [each.signal_id for each in found] == [f"cold_start-g{n}-0" for n in groups]
    assert {each.about for each in found} <= {Anything()}
    assert {each.kind for each in found} <= {"cold_start"}


def test_the_first_signal_ends_it():
    visits = [*failing(5), visit(4, group=5, version=5), *failing(20)]
    kinds = [each.kind for each in judged(visits, ColdStart(4, 9))]
    assert kinds == ["cold_start", "boundary"]


@pytest.mark.parametrize("cut", range(0, 13, 3))
def test_a_run_that_is_resumed_explores_as_often(cut: int):
    visits = failing(12)
    whole = judged(visits, ColdStart(4, 9))
    before = judged(visits[:cut], ColdStart(4, 9))
    rebuilt, other = (Detector(CONFIG, (), 100, ColdStart(4, 9)) for _ in range(2))
    for message in (*visits[:cut], *before):
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
        synthesizer=SynthesizerConfig(cold_start=2),
        signals=CONFIG,
    )
    observer = TaskObserver(config)
    found = [signal for each in failing(9) for signal in observer.signals(each)]
    assert [each.signal_id for each in found] == (
        ["cold_start-g1-0", "cold_start-g3-0"] if explores else []
    )
