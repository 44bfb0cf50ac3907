"""The rules of the skill model, on a simulated policy whose skills are known."""

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np
import pytest

from coevolve.environments.tools.cells import parts_of
from coevolve.signals.detector import Detector, DetectorState
from coevolve.signals.skill_model import SkillModel, SkillSpace
from protocols.evolution import SKILL, GroupSummary, OnPattern, Signal
from protocols.evolution_config import SignalsConfig
from tests.coevolve.signals.histories import skill_visit

CONFIG = SignalsConfig(rules="skills", kinds=("forgetting", "boundary", "rare"))
TOOLS = [f"t{number}" for number in range(12)]
LINKS = ["+".join(pair) for pair in zip(TOOLS, TOOLS[3:] + TOOLS[:3], strict=True)]
CHAINS = [f"{one}+{TOOLS[(n + 6) % 12]}" for n, one in enumerate(LINKS)]
SKILLS = [*TOOLS, *LINKS, *CHAINS]


class Policy:
    """Passes a turn if it manages all of its parts."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.logits = {part: self.random.normal(1.5, 1.5) for s in SKILLS for part in parts_of(s)}

    def rate(self, skill: str) -> float:
        return float(np.prod([1 / (1 + np.exp(-self.logits[part])) for part in parts_of(skill)]))

    def visits(self, skills: Sequence[str], count: int, first: int = 0) -> list[GroupSummary]:
        """Return visits of random skills, eight by each policy version."""
        return [
            self.visit(skills[int(self.random.integers(len(skills)))], number)
            for number in range(first, first + count)
        ]

    def visit(self, skill: str, number: int, rollouts: int = 8) -> GroupSummary:
        passed = int(self.random.binomial(rollouts, self.rate(skill)))
        return skill_visit(number, skill, passed, rollouts=rollouts)


def detector(*kinds: str) -> Detector:
    config = msgspec.convert(
        msgspec.to_builtins(CONFIG) | ({"kinds": kinds} if kinds else {}), SignalsConfig
    )
    return Detector(config, (), 1000, space=SkillSpace(parts_of))


def named(signals: Sequence[Signal]) -> list[str]:
    for each in signals:
        assert isinstance(each.about, OnPattern)
        assert each.about.kind == SKILL
    return [each.about.pattern for each in signals if isinstance(each.about, OnPattern)]


def test_the_model_foresees_skills_that_were_never_visited():
    policy, model = Policy(), SkillModel(SkillSpace(parts_of), half_life=200, limit=5)
    for visit in policy.visits([*TOOLS, *LINKS, *CHAINS[:6]], 500):
        model.add(visit)
    unseen = CHAINS[6:]
    rng = np.random.default_rng(0)
    foreseen = [np.mean([model.chance(skill, rng) for _ in range(100)]) for skill in unseen]
    told = [policy.rate(skill) for skill in unseen]
    assert float(np.corrcoef(foreseen, told)[0, 1]) > 0.8
    assert float(np.abs(np.subtract(foreseen, told)).mean()) < 0.15


def test_a_lost_part_is_found_over_the_skills_that_share_it_and_hardly_any_other():
    found, false = 0, 0
    for seed in range(6):
        policy, rules = Policy(seed), detector("forgetting")
        part = sorted(TOOLS, key=policy.logits.__getitem__)[6]
        before = [each for visit in policy.visits(SKILLS, 400) for each in rules.judge(visit)]
        policy.logits[part] -= 3.0
        after = [each for visit in policy.visits(SKILLS, 200, 400) for each in rules.judge(visit)]
        found += any(part in each.split("+") for each in named(after))
        false += len(before) + sum(part not in each.split("+") for each in named(after))
    assert found >= 5
    assert false <= 1


def test_boundary_names_skills_at_which_attempts_differ():
    policy, rules = Policy(3), detector("boundary")
    signals = [each for visit in policy.visits(SKILLS, 1200) for each in rules.judge(visit)]
    late = named(signals[len(signals) // 2 :])
    spread = [4 * policy.rate(each) * (1 - policy.rate(each)) for each in late]
    of_all = [4 * policy.rate(each) * (1 - policy.rate(each)) for each in SKILLS]
    assert len(late) > 20
    assert float(np.mean(spread)) > 1.15 * float(np.mean(of_all))


@pytest.mark.parametrize("imitates", [False, True])
def test_boundary_names_cells_that_no_task_had_by_what_the_learner_can_use(*, imitates: bool):
    space = SkillSpace(parts_of, tuple(SKILLS), imitates=imitates)
    policy, rules = Policy(1), Detector(CONFIG, (), 1000, space=space)
    for part in TOOLS[:4]:
        policy.logits[part] = -6.0
    visited = [*TOOLS, *LINKS]
    signals = [each for visit in policy.visits(visited, 1600) for each in rules.judge(visit)]
    late = named([each for each in signals[len(signals) // 2 :] if each.kind == "boundary"])
    assert {*late} & {*CHAINS}
    hopeless = {each for each in SKILLS if policy.rate(each) < 0.02}
    share = sum(each in hopeless for each in late) / len(late)
    of_all = len(hopeless) / len(SKILLS)
    assert share > 1.2 * of_all if imitates else share < 0.5 * of_all


def test_boundary_names_a_tool_that_no_task_has_used():
    policy = Policy()
    policy.logits = dict.fromkeys(policy.logits, 4.0)
    space = SkillSpace(parts_of, tools=("unused", *TOOLS), imitates=True)
    rules = Detector(CONFIG, (), 1000, space=space)
    signals = [each for visit in policy.visits(TOOLS, 800) for each in rules.judge(visit)]
    names = named([each for each in signals if each.kind == "boundary"])
    assert names.count("unused") > len(names) / 2
    assert "unused" not in named([each for each in signals if each.kind == "rare"])


def test_rare_names_parts_with_few_visits():
    policy, rules = Policy(), detector("rare")
    seldom = LINKS[0]
    skills = [*TOOLS * 3, *LINKS[1:] * 3, seldom]
    signals = [each for visit in policy.visits(skills, 800) for each in rules.judge(visit)]
    assert named(signals).count(seldom) >= max(1, len(signals) // 2)


def test_a_restored_state_gives_the_same_signals():
    policy, one, other = Policy(), detector(), detector()
    for visit in policy.visits(SKILLS, 200):
        one.judge(visit)
    other.state = msgspec.msgpack.decode(msgspec.msgpack.encode(one.state), type=DetectorState)
    following = policy.visits(SKILLS, 200, 200)
    assert [one.judge(each) for each in following] == [other.judge(each) for each in following]
    assert one.state == other.state


def test_only_the_first_skills_and_parts_are_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("coevolve.signals.skill_model.MAX_NAMES", 3)
    policy, model = Policy(), SkillModel(SkillSpace(parts_of), half_life=200, limit=5)
    for number, skill in enumerate([*TOOLS, *TOOLS[:2]]):
        model.add(policy.visit(skill, number))
    assert model.state.skills == [*model.state.parts] == model.names == TOOLS[:3]
    both = (model, SkillModel(SkillSpace(parts_of), 200, 5))
    one, other = (each.chance("t9", np.random.default_rng(0)) for each in both)
    assert one == other


@pytest.mark.parametrize(
    ("skill", "parts"), [("a", ["a"]), ("a+b+c", ["a", "b", "c", "a+b", "b+c"])]
)
def test_the_parts_of_a_turn_are_its_tools_and_their_pairs(skill: str, parts: list[str]):
    assert [*parts_of(skill)] == parts
    assert all(f"{one}+{two}" in parts_of(skill) for one, two in pairwise(skill.split("+")))
