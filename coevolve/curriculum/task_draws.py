"""The sets of tasks that `coevolve.curriculum.task_pool` draws from; O(log n) a draw or a change.

A task is *free* while no group on it is in flight. Each set is a `SumTree` in which every task has
a fixed place, and a task outside the set has 0. A draw takes one random number and finds the task
that `numpy.random.Generator.choice` would find on a list of the set, in the order of places; with
weights, except where the number lies within a rounding error of the border between two tasks. When
more than half of the places belong to no task any more, the tasks move together.
"""

import msgspec
import numpy as np

from coevolve.base.ordered import Ranked, SumTree

SPARE = 1024
"""Number of places without a task that are never too many."""


class UniformDraws:
    """Seed tasks and retired tasks, which are drawn uniformly, in the order of joining."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._ids: list[str] = []
        self._retired = SumTree()
        """Free retired tasks."""

        self._retired_seeds = SumTree()
        """Free retired seed tasks."""

        self._seeds = SumTree()
        self._free_seeds = SumTree()
        self._live_seeds = SumTree()
        self._free_live_seeds = SumTree()

    def note_made(self, task_id: str, *, is_retired: bool, is_free: bool) -> None:
        """Note a synthesized task, new or changed."""
        self._retired[self._place(task_id)] = int(is_retired and is_free)

    def note_seed(self, task_id: str, *, is_retired: bool, is_free: bool) -> None:
        """Note a seed task, new or changed."""
        place = self._place(task_id)
        self._retired[place] = int(is_retired and is_free)
        self._retired_seeds[place] = int(is_retired and is_free)
        self._seeds[place] = 1
        self._free_seeds[place] = int(is_free)
        self._live_seeds[place] = int(not is_retired)
        self._free_live_seeds[place] = int(not is_retired and is_free)

    def forget(self, task_id: str) -> None:
        """Remove a synthesized task."""
        place = self._places.pop(task_id)
        self._retired[place] = 0
        if len(self._ids) > 2 * len(self._places) + SPARE:
            self._move_together()

    def retired(self, generator: np.random.Generator, *, seeds_only: bool) -> str | None:
        """Return the id of a free retired task; None if there is none."""
        return self._one_of(self._retired_seeds if seeds_only else self._retired, generator)

    def seed(self, generator: np.random.Generator) -> str | None:
        """Return the id of a seed task; None without any.

        Prefers live ones, and of these (or of all, if none is live) free ones.
        """
        if self._live_seeds.total:
            free, wanted = self._free_live_seeds, self._live_seeds
        else:
            free, wanted = self._free_seeds, self._seeds
        return self._one_of(free if free.total else wanted, generator)

    def _move_together(self) -> None:
        old = list(self._places.values())
        self._ids = list(self._places)
        self._places = {task_id: place for place, task_id in enumerate(self._ids)}
        self._retired = self._retired.moved(old)
        self._retired_seeds = self._retired_seeds.moved(old)
        self._seeds = self._seeds.moved(old)
        self._free_seeds = self._free_seeds.moved(old)
        self._live_seeds = self._live_seeds.moved(old)
        self._free_live_seeds = self._free_live_seeds.moved(old)

    def _place(self, task_id: str) -> int:
        place = self._places.setdefault(task_id, len(self._ids))
        if place == len(self._ids):
            self._ids.append(task_id)
        return place

    def _one_of(self, tasks: SumTree, generator: np.random.Generator) -> str | None:
        if not tasks.total:
            return None
        return self._ids[tasks.place_of(int(generator.integers(int(tasks.total))))]


class Places(msgspec.Struct):
    """Where the tasks of a `WeightedDraws` are; what it remembers but for weights."""

    of: dict[str, int] = {}
    """The place of each task, in order. One that was removed and added again has a further one."""

    following: int = 0
    """The next place."""


class WeightedDraws:
    """Tasks with weights above 0, drawn by weight, in the order in which they were added."""

    def __init__(self, places: Places) -> None:
        """Draw from the tasks of ``places``, which it changes; note each before anything else."""
        self._at = places
        self._ids = {place: task_id for task_id, place in places.of.items()}
        """Ids by place."""

        self._weights = SumTree()
        """Weights of the free tasks."""

        self._ranked: Ranked[str, tuple[float, int]] = Ranked()
        """(weight, place) of every task."""

    def __len__(self) -> int:
        return len(self._at.of)

    def ids(self) -> tuple[str, ...]:
        """Return all tasks in order."""
        return tuple(self._at.of)

    def add(self, task_id: str) -> None:
        """Add a task, unless it is there already; note it before anything else."""
        if task_id not in self._at.of:
            if self._at.following > 2 * len(self._at.of) + SPARE:
                self._move_together()
            self._ids[self._at.following] = task_id
            self._at.of[task_id] = self._at.following
            self._at.following += 1

    def note(self, task_id: str, weight: float, *, is_free: bool) -> None:
        """Note a task's weight; ignores a task that was not added."""
        place = self._at.of.get(task_id)
        if place is not None:
            self._weights[place] = weight if is_free else 0.0
            self._ranked.put(task_id, (weight, place))

    def remove(self, task_id: str) -> None:
        place = self._at.of.pop(task_id, None)
        if place is not None:
            del self._ids[place]
            self._weights[place] = 0.0
            self._ranked.remove(task_id)

    def least(self) -> str:
        """Return the task of least weight, the first of equals. Raises IndexError without any."""
        return self._ids[self._ranked.at(0)[1]]

    def draw(self, generator: np.random.Generator) -> str | None:
        """Return the id of a free task; None if there is none."""
        if not self._weights.total:
            return None
        return self._ids[self._weights.place_of(generator.random() * self._weights.total)]

    def _move_together(self) -> None:
        self._weights = self._weights.moved(self._at.of.values())
        self._ids = dict(enumerate(self._at.of))
        self._at.of = {task_id: place for place, task_id in self._ids.items()}
        self._at.following = len(self._ids)
        for task_id, place in self._at.of.items():
            if ranked := self._ranked.get(task_id):
                self._ranked.put(task_id, (ranked[0], place))
