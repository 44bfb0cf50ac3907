"""What `coevolve evaluate` says about the scores of a version that somebody chose."""

from pathlib import Path

import pytest

from coevolve.commands.evaluate import caveats
from coevolve.commands.subjects import OfRun, OfRunFile
from coevolve.history.directory import RunDirectory
from coevolve.history.progress import Progress
from protocols.learning import Evaluation, TaskScore


def scored(tasks: int, scenario: str = "") -> Progress:
    progress = Progress({})
    scores = tuple(
        TaskScore(task_id=f"h{n}", turns_passed=n % 2, turns_total=1, scenario=scenario)
        for n in range(tasks)
    )
    progress.fold(Evaluation(version=7, scores=scores, errors=0, wall_s=0.0))
    return progress


def named(version: str) -> OfRun:
    return OfRun(RunDirectory(Path("run")), version)


def test_a_version_that_the_user_named_has_the_scores_of_both_halves():
    (told,) = caveats(named("7"), None, scored(200))
    assert "if a score on these tasks made you name version 7, it is too high here" in told
    assert "choose on one half (success " in told
    assert "and report the other (" in told


def test_variants_of_a_scenario_are_in_one_half():
    assert len(scored(200, "a scenario").halves[7]) == 1
    (told,) = caveats(named("7"), None, scored(200, "a scenario"))
    assert told.endswith("they are too few for two halves of 20")


@pytest.mark.parametrize("subject", [named("newest"), OfRunFile()])
def test_what_nobody_chose_has_no_caveat(subject: OfRun | OfRunFile):
    assert caveats(subject, None, scored(200)) == ()
