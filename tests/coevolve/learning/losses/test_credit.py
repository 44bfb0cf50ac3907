"""Conversations as text, one word per turn: a dot is a given token, a hash a written one."""

import random
from collections.abc import Sequence
from typing import Literal

import pytest

from coevolve.learning.batch import trained_group
from coevolve.learning.group import BatchGroup, Group
from coevolve.learning.groups import use_of
from coevolve.learning.losses import credit
from coevolve.learning.losses.policy_gradient import PolicyGradient
from coevolve.learning.objective_registry import section
from coevolve.learning.objectives.dapo import Dapo
from coevolve.learning.objectives.dr_grpo import DrGrpo
from coevolve.learning.objectives.grpo import Grpo
from coevolve.learning.objectives.gspo import Gspo
from protocols import columns
from protocols.config import LearnerConfig
from protocols.learner_config import ImitationConfig
from protocols.learning import Use
from protocols.rollouts import Rollout, Tokens

CENTRED = DrGrpo().surrogate.advantages
STANDARDIZED = Grpo().surrogate.advantages
NO_IMITATION = ImitationConfig(weight=0.0, replay_per_step=0)


def conversation(turns: str, *, passed: int, total: int = 3, index: int = 0) -> Rollout:
    """Return a rollout with as many started turns as ``turns`` has words."""
    words = turns.split()
    mask = [token == "#" for word in words for token in word]
    return Rollout(
        group_id="g0",
        group=0,
        index=index,
        group_size=4,
        task_id="t0",
        seed=index,
        tokens=Tokens(
            token_ids=columns.int32(range(len(mask))),
            mask=columns.uint8(mask),
            logprobs=columns.float32([-1.0 if each else 0.0 for each in mask]),
            versions=columns.int32([0 if each else -1 for each in mask]),
        ),
        actions=(),
        turns_passed=passed,
        turns_total=total,
        reward=float(passed == total),
        version_min=0,
        version_max=0,
        ended="finished" if passed == total else "wrong",
        wall_s=0.1,
        turn_starts=tuple(sum(map(len, words[:turn])) for turn in range(len(words))),
    )


def group_of(*rollouts: Rollout) -> Group:
    return Group(
        group_id="g0",
        number=0,
        task_id="t0",
        sequences=tuple(range(1, len(rollouts) + 1)),
        rollouts=tuple(enumerate(rollouts, start=1)),
    )


def advantages_of(
    rollouts: Sequence[Rollout],
    objective: PolicyGradient,
    kind: Literal["rollout", "turn"],
    negative_weight: float = 1.0,
) -> list[list[float]]:
    config = LearnerConfig(
        objective=section(objective),
        credit=kind,
        negative_weight=negative_weight,
        imitation=NO_IMITATION,
    )
    record = trained_group(group_of(*rollouts), config)
    batch = BatchGroup(record=record, rollouts=tuple(rollouts), reference=None)
    return [
        [float(each) for each in row.streams[0].targets] for row in objective.rows(batch, config)
    ]


ALL_THREE = conversation("..## .# .##", passed=3)
SECOND_FAILED = conversation("..# .##", passed=1)
FIRST_FAILED = conversation("..#", passed=0)


def test_a_turn_is_compared_with_the_same_turn_of_those_that_began_it():
    # Turn 0: 1, 1 and 0, their mean 2/3. Turn 1: 1 and 0. Turn 2: no rollout to compare with.
    found = credit.by_turn((ALL_THREE, SECOND_FAILED, FIRST_FAILED), CENTRED)
    third = pytest.approx(1 / 3)
    assert found == [
        [third, third, 0.5, 0.0, 0.0],
        [third, -0.5, -0.5],
        [pytest.approx(-2 / 3)],
    ]


def test_an_objective_that_standardizes_does_so_turn_by_turn():
    # The standard deviation of 1, 1 and 0 is the square root of 2/9, that of 1 and 0 is 1/2.
    found = credit.by_turn((ALL_THREE, SECOND_FAILED, FIRST_FAILED), STANDARDIZED)
    root = pytest.approx(0.5**0.5)
    assert found == [
        [root, root, 1.0, 0.0, 0.0],
        [root, -1.0, -1.0],
        [pytest.approx(-(2**0.5))],
    ]


def test_a_turn_that_everybody_who_began_it_passed_or_failed_teaches_nothing():
    one, other = conversation(".# .#", passed=1), conversation(".## .#", passed=1)
    assert credit.by_turn((one, other), CENTRED) == [[0.0, 0.0], [0.0, 0.0, 0.0]]
    assert not credit.is_informative((one, other))


def test_a_first_token_has_no_advantage_and_one_of_a_later_turn_has():
    one, other = conversation("## #", passed=2, total=2), conversation("# ##", passed=1, total=2)
    assert credit.written_positions(one.tokens.mask) == [1, 2]
    assert credit.by_turn((one, other), CENTRED) == [[0.0, 0.5], [-0.5, -0.5]]


def test_a_group_that_fails_as_a_whole_is_informative_where_some_came_further():
    assert credit.is_informative((SECOND_FAILED, FIRST_FAILED))
    assert not credit.is_informative((SECOND_FAILED, SECOND_FAILED))
    assert not credit.is_informative((FIRST_FAILED, FIRST_FAILED))
    assert not credit.is_informative((ALL_THREE, ALL_THREE))
    config = LearnerConfig(imitation=NO_IMITATION)
    by_turn = LearnerConfig(imitation=NO_IMITATION, credit="turn")
    group = group_of(SECOND_FAILED, FIRST_FAILED)
    assert (group.successes, use_of(group, config)) == (0, "nothing")
    assert use_of(group, by_turn) == "policy_gradient"
    assert advantages_of((SECOND_FAILED, FIRST_FAILED), DrGrpo(), "turn") == [[0.5, 0, 0], [-0.5]]
    assert use_of(group_of(FIRST_FAILED, FIRST_FAILED), by_turn) == "nothing"


def test_a_group_that_fails_as_a_whole_is_imitated_where_the_run_imitates():
    group = group_of(SECOND_FAILED, FIRST_FAILED)
    assert use_of(group, LearnerConfig(credit="turn")) == "imitation"


@pytest.mark.parametrize(("share", "use"), [(0.3, "policy_gradient"), (0.34, "imitation")])
def test_a_group_that_mostly_fails_is_imitated_up_to_a_share_of_successes(share: float, use: Use):
    group = group_of(ALL_THREE, SECOND_FAILED, FIRST_FAILED)
    config = LearnerConfig(imitation=ImitationConfig(success_share=share))
    assert use_of(group, config) == use


@pytest.mark.parametrize("objective", [Grpo(), DrGrpo(), Dapo(), Gspo()])
def test_turns_are_credited_as_rollouts_where_a_task_has_one_turn(objective: PolicyGradient):
    rollouts = [
        conversation(f"..{'#' * (2 + index)}.#", passed=index % 2, total=1, index=index)
        for index in range(5)
    ]
    by_turn, by_rollout = (advantages_of(rollouts, objective, kind) for kind in ("turn", "rollout"))
    assert by_turn == by_rollout
    assert [len(each) for each in by_turn] == [3, 4, 5, 6, 7]
    assert all(len(set(each)) == 1 for each in by_turn)
    assert by_turn[0][0] < 0 < by_turn[1][0]


def test_negative_advantages_are_scaled_with_either_credit():
    rollouts = (ALL_THREE, SECOND_FAILED, FIRST_FAILED)
    third, above = pytest.approx(1 / 3), pytest.approx(2 / 3)
    assert advantages_of(rollouts, DrGrpo(), "turn", 0.25) == [
        [third, third, 0.5, 0.0, 0.0],
        [third, -0.125, -0.125],
        [pytest.approx(-1 / 6)],
    ]
    below = pytest.approx(-1 / 12)
    assert advantages_of(rollouts, DrGrpo(), "rollout", 0.25) == [
        [above] * 5,
        [below] * 3,
        [below],
    ]
    assert advantages_of(rollouts, DrGrpo(), "rollout", 0.0) == [[above] * 5, [0.0] * 3, [0.0]]


def slow(rollouts: Sequence[Rollout]) -> list[list[float]]:
    """Return centred advantages, token by token, each from a separate comparison."""

    def turn_of(rollout: Rollout, position: int) -> int:
        return max(turn for turn, start in enumerate(rollout.turn_starts) if start <= position)

    def advantage(rollout: Rollout, turn: int) -> float:
        peers = [each for each in rollouts if len(each.turn_starts) > turn]
        mean = sum(each.turns_passed > turn for each in peers) / len(peers)
        return (rollout.turns_passed > turn) - mean

    return [
        [
            advantage(rollout, turn_of(rollout, position))
            for position, written in enumerate(rollout.tokens.mask)
            if written and position > 0
        ]
        for rollout in rollouts
    ]


@pytest.mark.parametrize("seed", range(20))
def test_a_slow_independent_implementation_agrees(seed: int):
    rng = random.Random(seed)
    rollouts: list[Rollout] = []
    for index in range(rng.randint(2, 6)):
        passed, total = rng.randint(0, 4), 4
        turns = ["".join(rng.choices(".#", k=rng.randint(1, 6))) for _ in range(min(passed + 1, 4))]
        rollouts.append(conversation(" ".join(turns), passed=passed, total=total, index=index))
    found, expected = credit.by_turn(rollouts, CENTRED), slow(rollouts)
    assert [len(each) for each in found] == [len(each) for each in expected]
    for own, other in zip(found, expected, strict=True):
        assert own == pytest.approx(other)
