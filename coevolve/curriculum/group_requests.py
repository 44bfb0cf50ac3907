"""Builds the rollout requests of one group."""

import numpy as np

from protocols.config import RunConfig
from protocols.rollouts import RolloutRequest, Writer


def group_requests(
    config: RunConfig,
    number: int,
    task_id: str,
    *,
    version: int = 0,
    author: Writer = "policy",
    instance: int = 0,
    imitable: bool = True,
) -> list[RolloutRequest]:
    """Return one request per rollout of a group, seeded by the run's seed and ``number``."""
    size = config.rollout.group_size
    seeds = np.random.default_rng([config.seed, number]).integers(0, 2**31, size)
    return [
        RolloutRequest(
            group_id=f"g{number}",
            group=number,
            index=index,
            group_size=size,
            task_id=task_id,
            seed=int(seed),
            policy_version_at_least=version,
            author=author,
            instance=instance,
            imitable=imitable,
        )
        for index, seed in enumerate(seeds)
    ]
