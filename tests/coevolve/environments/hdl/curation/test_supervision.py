"""Rewards with a bonus for points that few rollouts of a group cover, and their advantages."""

from collections.abc import Sequence

import msgspec
import pytest

from coevolve.environments.hdl.config import HdlConfig, StageConfig
from coevolve.environments.hdl.curation.supervision import DesignSupervision
from coevolve.environments.hdl.policy.transition import Graded
from coevolve.environments.hdl.simulate.messages import Coverage, Covered, reward_of
from coevolve.learning.batch import trained_group
from coevolve.learning.group import BatchGroup, Group
from coevolve.learning.objectives.dr_grpo import DrGrpo
from protocols.config import LearnerConfig
from protocols.learner_config import ImitationConfig
from protocols.rollouts import Rollout, Writer
from protocols.tasks import body_of
from tests.coevolve.environments.hdl.policy.test_steps import TASK
from tests.hdl_transitions import FAILED, coverage
from tests.learning import rollout


def covering(index: int, hits: int, covered: int) -> Rollout:
    """Return a rollout whose testbench covers the points of the bits of ``hits``, out of four."""
    found = Coverage(points_hash="p", hits=bytes([hits]), kinds=coverage((covered, 4)).kinds)
    outcome = Covered(coverage=found, ended="finish", slots=1, time=1, log="")
    graded = Graded(testbench="tb", outcome=outcome, key="k")
    plain = rollout(0, index, size=3)
    return msgspec.structs.replace(plain, outcome=body_of(graded), reward=reward_of(outcome))


COMMON, OTHER = covering(0, 0b0011, 2), covering(1, 0b0110, 2)
BROKEN = msgspec.structs.replace(rollout(0, 2, size=3), outcome=body_of(FAILED), reward=0.0)


def shape(rollouts: Sequence[Rollout], rarity_bonus: float) -> tuple[float, ...]:
    return DesignSupervision(HdlConfig(rarity_bonus=rarity_bonus)).shape(rollouts)


def test_points_that_few_rollouts_cover_earn_more() -> None:
    rare = covering(1, 0b0111, 3)
    assert shape([COMMON, rare, BROKEN], 0.4) == pytest.approx(
        (1.5 + 0.4 * (1 / 2 + 1 / 2) / 2, 1.75 + 0.4 * (1 / 2 + 1 / 2 + 1) / 3, 0.0)
    )
    assert shape([COMMON, rare, BROKEN], 0.0) == (1.5, 1.75, 0.0)


def test_advantages_include_the_bonus_and_records_do_not() -> None:
    third = covering(2, 0b0011, 2)
    rollouts = (COMMON, OTHER, third)
    group = Group(
        group_id="g0",
        number=0,
        task_id="t0",
        sequences=(1, 2, 3),
        rollouts=tuple(enumerate(rollouts, start=1)),
    )
    plain = LearnerConfig(objective={"kind": "dr_grpo"}, imitation=ImitationConfig(weight=0.0))
    assert trained_group(group, plain).use == "nothing"
    record = trained_group(group, plain, lambda group: shape(group, 1.0))
    assert record.use == "policy_gradient"
    batch = BatchGroup(
        record=record, rollouts=rollouts, reference=None, rewards=shape(rollouts, 1.0)
    )
    rows = DrGrpo().rows(batch, plain)
    # Points 0, 1 and 2 are covered by 2, 3 and 1 of the three.
    alike, rare = (1 / 2 + 1 / 3) / 2, (1 / 3 + 1) / 2
    mean = (2 * alike + rare) / 3
    advantages = [list(row.streams[0].targets) for row in rows]
    # Each rollout has three sampled tokens, after its first one.
    for found, reward in zip(advantages, [alike, rare, alike], strict=True):
        assert found == pytest.approx([reward - mean] * 3)
    assert [each.reward for each in batch.rollouts] == [1.5, 1.5, 1.5]


@pytest.mark.parametrize(
    ("group", "author", "selected"),
    [(0, "teacher", (1,)), (0, "policy", ()), (1, "policy", ()), (2, "policy", (1,))],
)
async def test_a_stage_learns_from_the_best_step_of_its_last_writer_alone(
    group: int, author: Writer, selected: tuple[int, ...]
) -> None:
    stages = (StageConfig(writers=("policy", "teacher"), groups=2), StageConfig())
    supervision = DesignSupervision(HdlConfig(stages=stages))
    best = covering(1, 0b0111, 3)
    steps = [msgspec.structs.replace(each, author=author) for each in (COMMON, best, BROKEN)]
    assert await supervision.select(TASK.task(), group, steps) == selected


async def test_of_a_group_without_a_graded_step_nothing_is_known() -> None:
    ungraded = [rollout(0, index, size=3) for index in range(3)]
    assert await DesignSupervision(HdlConfig()).select(TASK.task(), 0, ungraded) is None
