"""Losses planted into a made-up recording, in which nothing is lost."""

import msgspec
import numpy as np
import pytest

from coevolve.environments.rewards_only import TaskObserver
from coevolve.environments.tools.cells import parts_of
from coevolve.signals.detector import Detector
from coevolve.signals.planted import HORIZON, Loss, Recording, microseconds, thinned
from coevolve.signals.skill_model import SkillSpace
from protocols.config import RunConfig
from protocols.evolution import GroupSummary, SkillCount
from protocols.evolution_config import SignalsConfig
from tests.coevolve.signals.histories import skill_visit

SKILLS = ("a", "b", "a+b", "c")
RULES = SignalsConfig(rules="skills")


def visit(number: int, skill: str, passed: int) -> GroupSummary:
    return skill_visit(number, skill, passed, per_version=4)


@pytest.fixture(scope="module")
def run() -> Recording:
    """Return a run in which one in ten attempts fails, whatever the skill is."""
    rng = np.random.default_rng(0)
    visits = [
        visit(n, SKILLS[n % len(SKILLS)], int(rng.binomial(8, 0.9))) for n in range(9 * HORIZON)
    ]
    return Recording(
        visits,
        RunConfig(name="made-up"),
        lambda config: TaskObserver(config, (), SkillSpace(parts_of)).piece,
    )


def test_a_loss_takes_successes_from_the_turns_that_need_the_part_alone():
    all_gone = Loss("b", 2, 0.0)
    two_turns = msgspec.structs.replace(
        visit(8, "a", 8),
        successes=6,
        skills=(
            SkillCount(skill="a", passed=7, attempts=8),
            SkillCount(skill="a+b", passed=6, attempts=7),
            SkillCount(skill="c", passed=6, attempts=6),
        ),
    )
    rng = np.random.default_rng(0)
    left = thinned(two_turns, all_gone, parts_of, rng)
    counts = [(each.skill, each.passed, each.attempts) for each in left.skills]
    assert counts == [("a", 7, 8), ("a+b", 0, 7)]
    assert left.successes == 0
    for unchanged in (visit(7, "b", 8), visit(8, "a", 8)):
        assert thinned(unchanged, all_gone, parts_of, rng) is unchanged
    half = [thinned(visit(8, "b", 8), Loss("b", 2, 0.5), parts_of, rng) for _ in range(400)]
    assert np.mean([each.successes for each in half]) == pytest.approx(4, abs=0.3)


def test_planted_losses_are_found_and_nothing_where_none_is_planted(run: Recording):
    losses = run.losses(100, seed=0)
    assert {each.part for each in losses} == {"a", "b", "a+b", "c"}
    found = run.found(RULES, losses, seed=0)
    assert (found.losses, found.by_chance, found.false_alarms) == (len(losses), 0, 0)
    assert len(found.delays) > len(losses) / 2
    untouched = [each._replace(kept=1.0) for each in losses]
    assert run.found(RULES, untouched, seed=0).delays == ()


def test_the_same_seed_plants_the_same(run: Recording):
    assert run.losses(3, seed=1) == run.losses(3, seed=1) != run.losses(3, seed=2)
    losses = run.losses(3, seed=1)
    assert run.found(RULES, losses, 4) == run.found(RULES, losses, 4)


def test_the_time_of_a_visit_is_measured_with_as_many_tasks_as_are_asked_for(
    run: Recording, monkeypatch: pytest.MonkeyPatch
):
    opened: list[Detector] = []
    open_detector = run.detector

    def detector(signals: SignalsConfig, tasks: int = 0) -> Detector:
        opened.append(open_detector(signals, tasks))
        return opened[-1]

    monkeypatch.setattr(run, "detector", detector)
    for rules in ("posterior", "paper", "skills"):
        assert microseconds(run, rules, 1000) > 0
        assert len(opened[-1].state.history.tasks) == 1000
