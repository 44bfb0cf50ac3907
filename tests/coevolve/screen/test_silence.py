"""Tests of what is said after ten steps without a signal."""

import pytest
from msgspec.structs import replace

from coevolve.history.progress import Progress
from coevolve.screen.silence import STEPS, silence
from protocols.config import RunConfig
from protocols.evolution import Anything, OnTask, Signal
from protocols.learner_config import LearnerConfig, WarmStartConfig
from protocols.learning import Stage, StepReport

CONFIG = RunConfig(name="test")


def step(number: int, stage: Stage = "loop") -> StepReport:
    return StepReport(
        step=number,
        groups=(),
        weights_digest="",
        groups_consumed=number,
        metrics={},
        stage=stage,
    )


def after(*signals: Signal) -> Progress:
    progress = Progress({})
    for each in signals:
        progress.fold(each)
    return progress


def signal(kind: str) -> Signal:
    return Signal(
        signal_id=kind,
        kind=kind,  # type: ignore[arg-type]
        about=Anything() if kind == "cold_start" else OnTask(task_id="t"),
        score=0.0,
        rule="",
        evidence=(),
        policy_version=0,
    )


def test_it_is_said_once_with_remedies_that_the_run_file_leaves():
    said = [silence(CONFIG, step(n), after(signal("cold_start"))) for n in range(1, 2 * STEPS)]
    assert [n for n, text in enumerate(said, 1) if text] == [STEPS]
    [text] = filter(None, said)
    assert "imitate references first (learner.warm_start.steps)" in text
    assert "signals.kinds" not in text  # the default has all that help
    assert "raise rollout.group_size above 8" in text


def test_the_steps_of_a_warm_start_do_not_count():
    progress, said = Progress({}), dict[int, str]()
    for number in range(1, 3 * STEPS):
        report = step(number, "warm_start" if number <= STEPS + 2 else "loop")
        progress.fold(report)
        if text := silence(CONFIG, report, progress):
            said[number] = text
    assert list(said) == [2 * STEPS + 2]
    assert f"no signal in {STEPS} steps after the warm start" in said[2 * STEPS + 2]


def test_no_remedy_repeats_what_the_run_file_does():
    warm = replace(CONFIG, learner=LearnerConfig(warm_start=WarmStartConfig(steps=5)))
    assert "imitate" not in silence(warm, step(STEPS), after())
    narrow = replace(CONFIG, signals=replace(CONFIG.signals, kinds=("rare",)))
    assert "add unsolved to signals.kinds" in silence(narrow, step(STEPS), after())


@pytest.mark.parametrize("kind", ["boundary", "unsolved", "rare"])
def test_nothing_is_said_after_a_signal_or_by_an_arm_that_makes_no_tasks(kind: str):
    assert not silence(CONFIG, step(STEPS), after(signal(kind)))
    assert not silence(replace(CONFIG, arm="static"), step(STEPS), after())
