"""The tasks of a toolbox: seeds by popularity, the guard's, and one of every scored cell."""

from collections.abc import Sequence

import numpy as np

from coevolve.environments.tools.synthesis.brief import Start, start_of
from coevolve.environments.tools.task import tool_task
from coevolve.environments.tools.toolbox.domain import (
    Cell,
    Domain,
    cell_of,
    domain_of,
    skills_of,
    thing_for,
    things,
    use_of,
)
from coevolve.environments.tools.toolbox.settings import ToolboxConfig
from protocols.tasks import Instantiated, Origin, Seeded, Split, Task, attempted, body_of

_POOL_STREAM, _CHOICE_STREAM, _START_STREAM, _INSTANCE_STREAM, _SCORED_STREAM = range(2, 7)


class ToolboxSource:
    """A `coevolve.environments.tools.interfaces.ToolSource`."""

    def __init__(self, seed: int, settings: ToolboxConfig, *, is_uniform: bool) -> None:
        """Draw from a pool of seeds or, if uniform, a new task of any cell for every group."""
        self._seed = seed
        self._settings = settings
        self._is_uniform = is_uniform
        self.domain = domain_of(settings)
        self._pool = () if is_uniform else self._seeds()

    def pool(self) -> Sequence[Task]:
        return self._pool

    def draw(self, number: int) -> tuple[Task, bool]:
        rng = np.random.default_rng((self._seed, _CHOICE_STREAM, number))
        if not self._is_uniform:
            return self._pool[int(rng.integers(len(self._pool)))], False
        cells = self.domain.trained
        cell = cells[int(rng.integers(len(cells)))]
        return given(self.domain, cell, thing_for(cell, "trained", rng), f"uniform-{number}"), True

    def held_out(self) -> Sequence[Task]:
        rng = np.random.default_rng((self._settings.domain, _SCORED_STREAM))
        every = [
            given(self.domain, cell, thing_for(cell, "scored", rng), "scored", "held_out")
            for cell in self.domain.cells
        ]
        most = self._settings.held_out
        if most >= len(every):
            return every
        return [every[int(each)] for each in sorted(rng.permutation(len(every))[:most])]

    def canaries(self, count: int) -> Sequence[Task]:
        """Return trained cells with things of their own."""
        rng = np.random.default_rng((self._settings.domain, _POOL_STREAM))
        known = [cell for cell in self.domain.trained if things(cell, "watched")]
        cells = (known[int(each)] for each in rng.permutation(len(known))[:count])
        return [
            given(self.domain, cell, thing_for(cell, "watched", rng), "watched") for cell in cells
        ]

    def start(self, number: int) -> Start:
        """Return the world of a training task."""
        rng = np.random.default_rng((self._seed, _START_STREAM, number))
        cell = self.domain.free(rng)
        thing = thing_for(cell, "trained", rng)
        return start_of(given(self.domain, cell, thing, f"start-{number}"))

    def _seeds(self) -> tuple[Task, ...]:
        rng = np.random.default_rng((self._seed, _POOL_STREAM))
        domain, size = self.domain, min(self._settings.seeds, len(self.domain.trained))
        drawn = rng.choice(len(domain.trained), size, replace=False, p=domain.popularity)
        cells = (domain.trained[int(each)] for each in drawn)
        return tuple(given(domain, cell, thing_for(cell, "trained", rng), "seed") for cell in cells)


def given(domain: Domain, cell: Cell, thing: str, name: str, split: Split = "train") -> Task:
    """Return a task that the loop did not make, whose id begins with ``name``."""
    task_id = f"{name}-{'-'.join(cell)}"
    return _task(domain, cell, thing, task_id, split, Seeded(source=f"toolbox:{name}"))


def instance(domain: Domain, task: Task, seed: int) -> Task:
    """Return the same task on another thing for the same use."""
    cell, thing = cell_of(tool_task(task).turns[0].instruction)
    rng = np.random.default_rng((seed, _INSTANCE_STREAM, *task.task_id.encode()))
    other = thing_for(cell, use_of(cell, thing), rng, but=thing)
    task_id, origin = attempted(task.task_id, seed), Instantiated(root=task.task_id, instance=seed)
    return _task(domain, cell, other, task_id, task.split, origin)


def _task(
    domain: Domain, cell: Cell, thing: str, task_id: str, split: Split, origin: Origin
) -> Task:
    body = body_of(domain.task(cell, thing))
    skills = skills_of(cell)
    return Task(task_id=task_id, split=split, origin=origin, skills=skills, body=body)
