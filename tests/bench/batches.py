"""Batches of synthetic rollouts of several turns."""

import numpy as np

from coevolve.learning.group import BatchGroup
from protocols import columns
from protocols.learning import TrainedGroup
from protocols.rollouts import Rollout, Tokens

GROUPS = 8
GROUP_SIZE = 8


def batch_groups(
    seed: int = 0, *, groups: int = GROUPS, longest: int = 3, vocabulary: int = 700
) -> list[BatchGroup]:
    """Return a batch of synthetic rollouts: turns of some calls with their answers.

    A rollout has up to ``longest`` turns, of some 35 tokens each, and tokens below ``vocabulary``.
    """
    rng = np.random.default_rng(seed)
    return [_group(number, longest, vocabulary, rng) for number in range(groups)]


def _group(number: int, longest: int, vocabulary: int, rng: np.random.Generator) -> BatchGroup:
    prompt, turns = int(rng.integers(20, 60)), int(rng.integers(1, longest + 1))
    rollouts = tuple(
        Rollout(
            group_id=f"g{number}",
            group=number,
            index=index,
            group_size=GROUP_SIZE,
            task_id=f"t{number}",
            seed=index,
            tokens=_conversation(prompt, turns, vocabulary, rng),
            actions=(),
            turns_passed=int(index % 2 == 0),
            turns_total=1,
            reward=float(index % 2 == 0),
            version_min=0,
            version_max=0,
            ended="finished" if index % 2 == 0 else "wrong",
            wall_s=0.1,
        )
        for index in range(GROUP_SIZE)
    )
    record = TrainedGroup(
        group_id=f"g{number}",
        group=number,
        task_id=f"t{number}",
        sequences=(),
        successes=GROUP_SIZE // 2,
        use="policy_gradient",
    )
    return BatchGroup(record=record, rollouts=rollouts, reference=None)


def _conversation(prompt: int, turns: int, vocabulary: int, rng: np.random.Generator) -> Tokens:
    """Return a conversation of ``prompt`` tokens, then calls of the policy and their answers."""
    mask = [0] * prompt
    for _ in range(turns):
        for _ in range(int(rng.integers(1, 4))):
            mask += [1] * int(rng.integers(4, 13)) + [0] * int(rng.integers(3, 16))
    count = len(mask)
    return Tokens(
        token_ids=columns.int32(rng.integers(6, vocabulary, size=count).tolist()),
        mask=columns.uint8(mask),
        logprobs=columns.float32([-6.0 * each for each in mask]),
        versions=columns.int32([each - 1 for each in mask]),
    )
