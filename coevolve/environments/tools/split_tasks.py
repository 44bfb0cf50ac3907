"""Given tasks on both sides of the split: trained on, explored from, watched, or scored."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from coevolve.environments.tools.synthesis.brief import Start, start_of
from protocols.config import RunConfig
from protocols.tasks import Split, Task


@dataclass(frozen=True, kw_only=True)
class Streams:
    """The random streams of a source; each draws independently of the others."""

    pool: int
    choice: int
    start: int


class SplitTasks:
    """A `coevolve.environments.tools.interfaces.ToolSource` with a fixed pool of training tasks."""

    def __init__(
        self,
        config: RunConfig,
        train: Sequence[Task],
        held_out: Sequence[Task],
        *,
        seeds: int,
        streams: Streams,
    ) -> None:
        """Watch the first tasks of ``train``, and draw at most ``seeds`` others for the pool."""
        self._seed = config.seed
        self._streams = streams
        self._canaries, self._train = apart(config, train, streams.pool)
        self._pool = self._train[:seeds]
        self._held_out = tuple(held_out)

    def pool(self) -> Sequence[Task]:
        """Return the configured number of training tasks, drawn by the run's seed."""
        return self._pool

    def draw(self, number: int) -> tuple[Task, bool]:
        rng = np.random.default_rng((self._seed, self._streams.choice, number))
        return self._pool[int(rng.integers(len(self._pool)))], False

    def held_out(self) -> Sequence[Task]:
        return self._held_out

    def canaries(self, count: int) -> Sequence[Task]:
        """Return training tasks that no run has in its pool, the same for every seed of a run."""
        return self._canaries[:count]

    def start(self, number: int) -> Start:
        """Return the world of a training task, in the pool or not."""
        rng = np.random.default_rng((self._seed, self._streams.start, number))
        return start_of(self._train[int(rng.integers(len(self._train)))])


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


def held_out_places(
    places: Iterable[int], share: float, *, decided: Collection[Split] = ()
) -> set[int]:
    """Return the lowest places, ``share`` of their number, rounded.

    At least one place goes to each side that is not among the sides ``decided`` by other tasks.
    Places are digests of what the tasks of a group have in common, so the choice is random. If
    groups are added, most others keep their side.
    """
    ordered = sorted(set(places))
    least, kept = int("held_out" not in decided), int("train" not in decided)
    return set(ordered[: max(least, min(round(share * len(ordered)), len(ordered) - kept))])
