"""Which training tasks the guard watches, and the order of the others."""

from collections.abc import Sequence

import numpy as np

from protocols.config import RunConfig
from protocols.tasks import Task


def apart(
    config: RunConfig, train: Sequence[Task], stream: int
) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Return the tasks that no run trains on, and the others in the order of the run's seed.

    The first are the same for every seed of a run. ``stream`` is the random stream of the order.
    """
    watched = config.learner.guard.tasks if config.learner.guard.action != "none" else 0
    # At most a quarter: more canaries would leave a small training split without training tasks.
    count = min(watched, len(train) // 4)
    return tuple(train[:count]), shuffled(train[count:], (config.seed, stream))


def shuffled(tasks: Sequence[Task], seed: tuple[int, int]) -> tuple[Task, ...]:
    """Return the tasks in a random order."""
    order = np.random.default_rng(seed).permutation(len(tasks))
    return tuple(tasks[int(number)] for number in order)
