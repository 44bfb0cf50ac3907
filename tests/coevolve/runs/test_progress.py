import json
from pathlib import Path

from coevolve.runs.display import score_tables
from coevolve.runs.progress import HELD_OUT, MetricsFile, Progress
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
        errors=0,
        wall_s=1.5,
    )


def test_a_task_counts_under_each_label_if_every_turn_passed():
    progress = Progress(LABELS)
    progress.fold(evaluated(40, a=2, b=1, c=2))
    assert progress.evaluations[40] == {"all": 2 / 3, "one turn": 1.0, "several turns": 0.5}


def covered(version: int, **shares: float) -> Evaluation:
    scores = tuple(
        TaskScore(
            task_id=task,
            turns_passed=int(share >= 0.9),
            turns_total=1,
            measures={"coverage": share},
        )
        for task, share in shares.items()
    )
    return Evaluation(version=version, scores=scores, errors=0, wall_s=1.0)


def test_designs_are_reported_by_coverage_with_held_out_ones_separate():
    progress = Progress({"a": ("seen designs",), "b": (HELD_OUT,), "c": (HELD_OUT,)})
    progress.fold(covered(0, a=1.0, b=0.5, c=0.25))
    progress.fold(covered(9, a=0.25, b=0.75, c=0.5))
    assert progress.measured["coverage"][9] == {"all": 0.5, "seen designs": 0.25, HELD_OUT: 0.625}
    assert progress.evaluations[0] == {"all": 1 / 3, "seen designs": 1.0, HELD_OUT: 0.0}
    assert progress.held_out() == {0: 0.375, 9: 0.625}
    titles = [table.title for table in score_tables(progress)]
    assert titles == ["coverage, %", "success, %"]


def test_without_coverage_versions_are_reported_by_success():
    progress = Progress(LABELS)
    progress.fold(evaluated(40, a=2, b=1, c=2))
    assert progress.held_out() == {40: 2 / 3}
    assert not progress.measured
    assert [table.title for table in score_tables(progress)] == ["success, %"]


def test_discards_are_counted_by_reason():
    progress = Progress({})
    for reason in ("stale", "failed", "stale"):
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
    assert progress.discarded == {"stale": 2, "failed": 1}


def test_the_metrics_file_has_one_line_per_step_and_per_score_and_no_other(tmp_path: Path):
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
