"""What a run shows on a terminal and elsewhere."""

import io
import json

import pytest
import structlog
from msgspec.structs import replace
from rich.console import Console

from coevolve.history.curves import REWARD
from coevolve.history.progress import Progress
from coevolve.parts import logs
from coevolve.screen.display import SOLVED, STEPS, open_display, silence
from coevolve.screen.start import StartScreen
from protocols.config import RunConfig
from protocols.control import PartFailed
from protocols.evolution import Anything, OnTask, Signal
from protocols.learner_config import LearnerConfig, WarmStartConfig
from protocols.learning import Stage, StepReport
from tests.exporting import scored
from tests.screens import status

HIDE_CURSOR = "\x1b[?25l"


def test_the_run_takes_the_place_of_its_start_at_the_first_record(quickstart: RunConfig):
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=100, height=30)
    display = open_display(quickstart, StartScreen(console, "coevolve launch quickstart"))
    display.begin("start Ray")
    display.say("a warning")
    assert "coevolve launch quickstart" in shown.getvalue()
    assert "a warning" in shown.getvalue()
    display.show(PartFailed(part="learner", reason="it was killed"), Progress({}))
    assert display.look is not None
    before = len(shown.getvalue())
    display.look([status("learner", "weights to be loaded")])
    start, _, said = shown.getvalue()[before:].rpartition(HIDE_CURSOR)
    display.say("an event")
    display.begin("stops")
    display.look([])
    display.close()
    assert "learner restarted: it was killed" in said
    assert "waits for weights to be loaded" in said
    assert start.endswith("\x1b[2K")
    assert "start Ray" not in said
    assert "! an event" in shown.getvalue()
    assert "stops" in shown.getvalue()
    assert shown.getvalue().endswith("\x1b[2K")


def test_a_step_in_which_every_group_was_imitated_taught_by_all_of_them(
    quickstart: RunConfig, capsys: pytest.CaptureFixture[str]
):
    before = structlog.get_config()
    logs.to_output()
    display = open_display(quickstart, StartScreen(Console(file=io.StringIO()), "trial"))
    metrics = {"groups/all_fail": 4.0, "groups/informative": 0.0, "groups/imitated": 4.0}
    report = StepReport(step=1, groups=(), weights_digest="", groups_consumed=4, metrics=metrics)
    display.show(report, Progress({}))
    structlog.configure(**before)
    step = json.loads(capsys.readouterr().out)
    assert (step["groups_that_taught_percent"], step["groups_imitated_percent"]) == (100.0, 100.0)


def test_elsewhere_a_step_is_one_short_line_with_its_score(
    quickstart: RunConfig, capsys: pytest.CaptureFixture[str]
):
    before = structlog.get_config()
    logs.to_output()
    display = open_display(quickstart, StartScreen(Console(file=io.StringIO()), "trial"))
    progress = Progress({})
    metrics = {f"metric/{number}": 0.1 for number in range(200)} | {
        "critic/rewards/mean": 0.5,
        "groups/all_fail": 2.0,
        "groups/mixed": 5.0,
        "groups/all_pass": 1.0,
        "groups/informative": 5.0,
        "groups/imitated": 2.0,
    }
    report = StepReport(step=3, groups=(), weights_digest="", groups_consumed=8, metrics=metrics)
    for message in (scored(2, 3), report):
        progress.fold(message)
        display.show(message, progress)
    structlog.configure(**before)
    evaluation, step = map(json.loads, capsys.readouterr().out.splitlines())
    assert (evaluation["version"], evaluation["held_out_percent"]) == (2, 75.0)
    del step["timestamp"]
    assert step == {
        "event": "step",
        "level": "info",
        "step": 3,
        "of": quickstart.learner.steps,
        "scored": "success",
        "held_out_percent": 75.0,
        "std_error_percent": 16.7,
        "tasks": 4,
        "groups_that_taught_percent": 87.5,
        "groups_imitated_percent": 25.0,
        "reward": 0.5,
    }


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


def test_solved_tasks_need_others_and_no_larger_groups():
    solved = replace(step(STEPS), metrics={REWARD: SOLVED})
    text = silence(CONFIG, solved, after())
    assert "add tasks that are harder or worded otherwise" in text
    assert "synthesizer.idle_steps below 4" in text
    assert "group_size" not in text


@pytest.mark.parametrize("kind", ["boundary", "unsolved", "rare"])
def test_nothing_is_said_after_a_signal_or_by_an_arm_that_makes_no_tasks(kind: str):
    assert not silence(CONFIG, step(STEPS), after(signal(kind)))
    assert not silence(replace(CONFIG, arm="static"), step(STEPS), after())
