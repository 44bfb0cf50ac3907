"""Scores with their standard errors, and versions that some tasks choose and others report on."""

import random
from collections.abc import Sequence
from statistics import fmean

import pytest

from coevolve.history.progress import Progress
from coevolve.history.score import LEAST, choice, half_of, score_of, wilson
from protocols.learning import CanaryScores, Evaluation, TaskScore

MANY = [f"task-{number}" for number in range(200)]


def attempts(tasks: Sequence[str], passed: int) -> tuple[TaskScore, ...]:
    return tuple(
        TaskScore(task_id=task, turns_passed=int(number < passed), turns_total=1)
        for number, task in enumerate(tasks)
    )


def evaluated(version: int, tasks: Sequence[str], passed: int) -> Evaluation:
    return Evaluation(version=version, scores=attempts(tasks, passed), errors=0, wall_s=1.0)


def test_one_attempt_a_task_has_wilsons_interval():
    score = score_of((str(number), float(number < 81)) for number in range(263))
    assert (score.low, score.high) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert score.tasks == 263
    assert score.std_error == pytest.approx((0.3662 - 0.2553) / 3.92, abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)


def test_attempts_at_one_task_are_not_independent():
    alike = score_of((str(number % 20), float(number % 20 < 10)) for number in range(80))
    once = score_of((str(number), float(number < 10)) for number in range(20))
    assert alike == once
    apart = score_of((str(number), float(number < 40)) for number in range(80))
    assert apart.std_error < 0.6 * alike.std_error


def test_scores_that_are_alike_everywhere_are_uncertain_all_the_same():
    for value in (0.0, 0.5, 1.0):
        few = score_of((str(number), value) for number in range(5))
        many = score_of((str(number), value) for number in range(500))
        assert few.std_error > 5 * many.std_error > 0


def test_the_interval_covers_the_truth_as_often_as_it_says():
    draw = random.Random(0)
    covered = 0
    for _ in range(400):
        shares = [draw.betavariate(2, 1) for _ in range(60)]
        found = [(str(n), float(draw.random() < p)) for n, p in enumerate(shares) for _ in range(4)]
        score = score_of(found)
        covered += score.low <= 2 / 3 <= score.high
    assert 0.92 <= covered / 400 <= 0.98


def test_a_task_stays_in_its_half_whatever_else_is_scored():
    halves = {task: half_of(task) for task in MANY}
    assert {half_of(task) for task in reversed(MANY)} == {"selection", "reporting"}
    assert 60 <= list(halves.values()).count("selection") <= 140
    assert half_of("task-0") == halves["task-0"]


def test_the_canaries_choose_and_all_held_out_tasks_report():
    progress = Progress({})
    for version, canaries, held_out in ((0, 1, 180), (10, 5, 100), (20, 5, 90)):
        scores = attempts([f"canary-{number}" for number in range(8)], canaries)
        progress.fold(CanaryScores(version=version, scores=scores, errors=0))
        progress.fold(evaluated(version, MANY, held_out))
    best = progress.choice()
    assert best is not None
    assert best.reported is not None
    assert best.brief == "version 20, best of 3 by 8 canaries; 45.0 ± 3.5 % held out"
    assert (best.version, best.chosen_on, best.among) == (20, "canaries", 3)
    assert (best.reported.mean, best.reported.tasks) == (0.45, 200)
    assert best.sentence("success") == (
        "version 20, chosen from 3 by 8 canaries; success 45.0 ± 3.5 % of 200 held-out tasks, "
        "which did not choose it"
    )
    only = progress.choice([0])
    assert only is not None
    assert only.version == 0


def test_without_canaries_one_half_chooses_and_the_other_reports():
    progress = Progress({})
    selecting = [task for task in MANY if half_of(task) == "selection"]
    reporting = [task for task in MANY if half_of(task) == "reporting"]
    progress.fold(evaluated(0, [*selecting, *reporting], len(selecting)))
    progress.fold(evaluated(9, [*reporting, *selecting], len(reporting)))
    best = progress.choice()
    assert best is not None
    assert best.reported is not None
    assert (best.version, best.choosing.mean, best.reported.mean) == (0, 1.0, 0.0)
    assert best.choosing.tasks == len(selecting)
    assert best.reported.tasks == len(reporting)


def test_too_few_tasks_give_no_unbiased_score():
    progress = Progress({})
    few = MANY[: LEAST + 5]
    progress.fold(evaluated(0, few, 5))
    progress.fold(evaluated(1, few, 20))
    best = progress.choice()
    assert best is not None
    assert (best.version, best.reported) == (1, None)
    assert best.brief == "version 1, best of 2 by the same 25 tasks: 80.0 % is too high"
    assert "too high: they are too few for two halves" in best.sentence("success")
    assert best.is_told
    assert choice({}, {}, {}, [0]) is None


def test_no_version_is_told_to_be_the_best_if_none_solved_anything():
    progress = Progress({})
    for version in range(3):
        progress.fold(evaluated(version, MANY[:6], 0))
    best = progress.choice()
    assert best is not None
    assert not best.is_told


def test_the_score_that_chose_is_too_high_and_the_reported_one_is_not():
    draw = random.Random(1)
    chose, reported = list[float](), list[float]()
    for _ in range(60):
        progress = Progress({})
        for version in range(8):
            tasks = draw.sample(MANY, len(MANY))
            progress.fold(evaluated(version, tasks, len(MANY) // 2))
        best = progress.choice()
        assert best is not None
        assert best.reported is not None
        chose.append(best.choosing.mean)
        reported.append(best.reported.mean)
    assert fmean(chose) > 0.53
    assert fmean(reported) < 0.5
