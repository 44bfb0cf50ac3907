import json
from pathlib import Path

from coevolve.run.progress import MetricsFile, Progress
from protocols.control import RunFinished
from protocols.learning import Evaluation, GroupDiscarded, StepReport, TaskScore

LABELS = {"a": ("one turn",), "b": ("several turns",), "c": ("several turns",)}


def evaluated(version: int, **passed: int) -> Evaluation:
    return Evaluation(
        version=version,
        scores=tuple(
            TaskScore(task_id=task, turns_passed=turns, turns_total=2)
            for task, turns in passed.items()
        ),
        void=0,
        wall_s=1.5,
    )


def test_a_task_counts_when_every_turn_passed_in_each_of_its_groups():
    progress = Progress(LABELS)
    progress.fold(evaluated(40, a=2, b=1, c=2))
    assert progress.evaluations[40] == {"all": 2 / 3, "one turn": 1.0, "several turns": 0.5}


def test_discards_are_counted_by_reason():
    progress = Progress({})
    for reason in ("stale", "void", "stale"):
        progress.fold(
            GroupDiscarded(
                group_id="g",
                group=0,
                task_id="t",
                reason=reason,
                successes=0,
                rollouts=0,
                groups_consumed=1,
            )
        )
    assert progress.discarded == {"stale": 2, "void": 1}


def test_the_metrics_file_has_a_line_a_step_and_a_score_and_no_other(tmp_path: Path):
    progress, metrics = Progress(LABELS), MetricsFile(tmp_path / "metrics.jsonl")
    step = StepReport(
        step=1, groups=(), weights_digest="", groups_consumed=8, metrics={"actor/lr": 0.1}
    )
    for message in (step, evaluated(1, a=2), RunFinished(steps=1)):
        progress.fold(message)
        metrics.write(message, progress)
    metrics.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").open()]
    assert lines == [
        {"step": 1, "actor/lr": 0.1},
        {"step": 1, "timing_s/testing": 1.5, "val/success/all": 1.0, "val/success/one turn": 1.0},
    ]
