"""Tests of the rule for what the policy never manages."""

import pytest
from msgspec.structs import replace

from coevolve.signals.detector import Detector
from coevolve.signals.groups import skill_counts
from protocols.evolution import SKILL, GroupSummary, OnPattern, OnTask, Signal, SkillCount
from protocols.evolution_config import SignalsConfig
from tests.coevolve.signals.histories import rollout, visit

CONFIG = SignalsConfig(kinds=("unsolved",), cool_down_versions=100)


def judged(visits: list[GroupSummary], config: SignalsConfig = CONFIG) -> list[Signal]:
    detector = Detector(config, (), 100)
    return [signal for each in visits for signal in detector.judge(each)]


def failing(group: int, *skills: str, task_id: str = "", passed: int = 0) -> GroupSummary:
    counts = tuple(SkillCount(skill=each, passed=passed, attempts=8) for each in skills)
    made = visit(passed, group=group, version=group, task_id=task_id or f"t{group}")
    return replace(made, skills=counts)


def test_a_task_of_which_29_attempts_failed_is_unsolved_and_not_before():
    visits = [visit(0, group=n, version=n) for n in range(6)]
    [found] = judged(visits)
    assert (found.kind, found.about) == ("unsolved", OnTask(task_id="task"))
    assert found.signal_id == "unsolved-g3-0"  # 32 attempts; 0.9 ** 29 is the first below 5 %
    assert found.evidence == (301, 302)
    assert 0.95 < found.score < 1
    assert "32 of 32 attempts failed" in found.rule


@pytest.mark.parametrize("at", [0, 2, 3])
def test_one_success_within_the_window_ends_it(at: int):
    assert not judged([visit(int(n == at), group=n, version=n) for n in range(4)])


def test_a_success_that_left_the_window_counts_no_more():
    config = replace(CONFIG, window=4)
    visits = [visit(int(n == 0), group=n, version=n) for n in range(6)]
    assert [each.signal_id for each in judged(visits, config)] == ["unsolved-g5-0"]


def test_a_skill_fails_across_tasks_before_any_of_them_is_tried_often():
    visits = [failing(n, "mv", "cd+touch") for n in range(4)]
    found = judged(visits)
    assert [each.about for each in found] == [
        OnPattern(kind=SKILL, pattern="mv"),
        OnPattern(kind=SKILL, pattern="cd+touch"),
    ]


def test_a_skill_that_one_attempt_passed_begins_anew():
    visits = [failing(n, "mv", passed=int(n == 2)) for n in range(7)]
    assert [each.signal_id for each in judged(visits)] == ["unsolved-g6-0"]


def test_a_lower_boundary_asks_for_more_attempts_and_what_a_teacher_fails_is_not_counted():
    visits = [visit(0, group=n, version=n) for n in range(5)]
    assert not judged(visits, replace(CONFIG, boundary_low=0.05))
    assert not judged([replace(each, author="teacher") for each in visits])


def test_the_papers_rules_have_no_such_signal():
    visits = [failing(n, "mv") for n in range(9)]
    assert not judged(visits, replace(CONFIG, rules="paper"))


def test_an_attempt_fails_at_the_turn_that_it_does_not_pass():
    through = [replace(rollout(0, n), turns_passed=n, turns_total=3) for n in range(4)]
    assert skill_counts(("mv", "ls", "mv"), through) == (
        SkillCount(skill="mv", passed=4, attempts=6),
        SkillCount(skill="ls", passed=2, attempts=3),
    )


def test_a_detector_that_is_rebuilt_knows_the_failures():
    visits = [failing(n, "mv") for n in range(4)]
    rebuilt = Detector(CONFIG, (), 100)
    for each in visits[:3]:
        rebuilt.recall(each)
    other = Detector(CONFIG, (), 100)
    other.state = rebuilt.state
    assert list(other.judge(visits[3])) == judged(visits)
