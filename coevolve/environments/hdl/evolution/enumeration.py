"""Enumerates the new tasks that a signal on designs leads to, without a model.

| signal                            | new task                                                     |
|-----------------------------------|--------------------------------------------------------------|
| a region was forgotten or is rare | the region as goal, from the best testbench of the evidence  |
|                                   | that does not cover it                                       |
| a task without goal is at the     | the same with a harder threshold, towards the best testbench |
| boundary                          | of the evidence; a variant of its design with other secrets, |
|                                   | at most ``environment.variants`` of each                     |
| a task was forgotten              | none: the pool revives it                                    |

In the arm ``random`` a signal leads to the same number of new tasks, but of a random kind, on a
random design and region.
"""

import math
import random
from collections.abc import Mapping, Sequence

from coevolve.environments.hdl.coverage.regions import Region, design_of, named, regions
from coevolve.environments.hdl.curation.states import average, exact, reached
from coevolve.environments.hdl.designs.catalogue import Catalogue
from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.designs.variants import other_constants
from coevolve.environments.hdl.evolution.messages import (
    DesignChange,
    DesignVariant,
    HarderThreshold,
    RegionGoal,
)
from coevolve.environments.hdl.policy.task import CoverageTask, coverage_task
from coevolve.environments.hdl.policy.transition import Graded, coverage_of, graded_of
from coevolve.environments.hdl.settings import hdl_settings
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.journal.retained import retained_rollouts
from coevolve.journal.task_cache import TaskCache
from coevolve.synthesis.briefs import seed_of
from protocols.config import RunConfig
from protocols.evolution import OnPattern, OnTask, Signal
from protocols.interfaces import Reader

PERCENT = 100
"""Thresholds are whole percents."""


class Enumeration:
    """Enumerates the new tasks of one run."""

    def __init__(
        self,
        config: RunConfig,
        *,
        reader: Reader,
        catalogue: Catalogue,
        simulator: TestbenchSimulator,
    ) -> None:
        """Read tasks and evidence with ``reader``, and the points of designs with ``simulator``."""
        self._config = config
        self._reader = reader
        self._catalogue = catalogue
        self._simulator = simulator
        self._tasks = TaskCache(reader, coverage_task)
        self._train = sorted(
            (each for each in catalogue.given.values() if each.file.split == "train"),
            key=lambda each: each.design_id,
        )

    async def changes(self, signal: Signal, variants: Mapping[str, int]) -> list[DesignChange]:
        """Return the changes for the signal; ``variants`` counts each design's variants so far."""
        match signal.about:
            case OnPattern() as about:
                found = await self._towards(about, signal)
            case OnTask(task_id=task_id):
                task = await self._tasks.get(task_id)
                at_boundary = signal.kind == "boundary" and not task.goal
                found = await self._beyond(task, signal, variants) if at_boundary else []
        if self._config.arm != "random":
            return found
        generator = self._generator(signal, "random")
        return [await self._any(generator, variants) for _ in found]

    async def _towards(self, about: OnPattern, signal: Signal) -> list[DesignChange]:
        design = await self._catalogue.get(design_of(about))
        region = named(about, await self._regions(design))
        if region is None:
            return []
        start = await self._start(region, signal)
        return [RegionGoal(design=design.design_id, points=region.points, start=start)]

    async def _start(self, region: Region, signal: Signal) -> int:
        """Return the best rollout of the evidence that lacks the region; 0 if there is none."""
        lacking = {
            sequence: average(coverage_of(state))
            for sequence, state in await self._evidence(signal)
            if coverage_of(state) is not None
            and len(reached(region.points, state)) < len(region.points)
        }
        return max(lacking, key=lambda sequence: lacking[sequence], default=0)

    async def _beyond(
        self, task: CoverageTask, signal: Signal, variants: Mapping[str, int]
    ) -> list[DesignChange]:
        evidence = await self._evidence(signal)
        best = max((average(coverage_of(state)) for _, state in evidence), default=0)
        made: list[DesignChange] = []
        least, most = PERCENT * exact(task.threshold), math.floor(PERCENT * best)
        if most > least:
            step = math.ceil((least + most) / 2) / PERCENT
            made.append(HarderThreshold(design=task.design, than=task.task_id, threshold=step))
        given = self._catalogue.given.get(task.design)
        if given is not None and self._has_room(given, variants):
            made += self._variant(given, self._generator(signal, "variant"))
        return made

    async def _any(self, generator: random.Random, variants: Mapping[str, int]) -> DesignChange:
        design = generator.choice(self._train)
        kind = generator.choice(("region", "threshold", "variant"))
        if kind == "variant" and self._has_room(design, variants):
            made = self._variant(design, generator)
            if made:
                return made[0]
        least = math.floor(PERCENT * exact(design.file.threshold))
        if kind == "threshold" and least + 1 < PERCENT:
            threshold = generator.randrange(least + 1, PERCENT) / PERCENT
            name = design.design_id
            return HarderThreshold(design=name, than=name, threshold=threshold)
        region = generator.choice(await self._regions(design))
        return RegionGoal(design=design.design_id, points=region.points, start=0)

    def _has_room(self, design: Design, variants: Mapping[str, int]) -> bool:
        return variants.get(design.design_id, 0) < hdl_settings(self._config).variants

    def _variant(self, design: Design, generator: random.Random) -> list[DesignVariant]:
        constants = other_constants(design, generator)
        return [DesignVariant(design=design.design_id, constants=constants)] if constants else []

    async def _regions(self, design: Design) -> Sequence[Region]:
        return regions(await self._simulator.points(design.unit), design.unit)

    async def _evidence(self, signal: Signal) -> list[tuple[int, Graded]]:
        """Return the testbenches of the signal's rollouts, by journal sequence."""
        found = (await retained_rollouts(self._reader, signal.evidence)).items()
        states = [(sequence, graded_of(rollout)) for sequence, rollout in found]
        return [(sequence, state) for sequence, state in states if state is not None]

    def _generator(self, signal: Signal, what: str) -> random.Random:
        return random.Random(seed_of(self._config.seed, signal.signal_id, what))  # noqa: S311
