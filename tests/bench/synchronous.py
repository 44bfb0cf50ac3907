"""The quickstart's learning in one process, without Ray, journal and staleness, for comparisons.

A step requests groups until a full batch of them gives a gradient, trains on them, and gives the
new weights to the engine. Tasks, engine, simulator, groups and trainer are the product's own; only
the messages between them are left out.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from coevolve.curriculum.group_requests import group_requests
from coevolve.engine.generator import TransformersGenerator
from coevolve.environments.settings import settings_of
from coevolve.environments.tools.agent import ToolAgent
from coevolve.environments.tools.filesystem.grammar import held_out_tasks, uniform_task
from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.filesystem.settings import FilesystemConfig
from coevolve.learning.batch import Batch, trained_group
from coevolve.learning.group import BatchGroup, Group
from coevolve.learning.groups import use_of
from coevolve.learning.trainer import Trainer
from coevolve.learning.versions import remove_old_versions, write_version
from coevolve.models.model_folder import model_folder
from coevolve.parts.files import LocalFiles
from coevolve.rollouts.agent import Episode, rollout_of
from protocols.config import RunConfig
from protocols.tasks import Task
from tests.simulated import InProcessSimulator

CONCURRENT = 128

GRADIENT_ALONE = (
    "arm=uniform",
    "learner.imitation.weight=0",
    "learner.imitation.replay_per_step=0",
    "learner.guard.action=none",
    "learner.divergence_every=0",
)
"""Overrides of the quickstart that leave only the policy gradient."""

WARMUP = 10
ROLLOUTS_A_STEP = 170
"""Approximate number of rollouts per step of the shipped policy, including replaced groups."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """Held-out success after a number of rollouts."""

    step: int
    rollouts: int
    cpu_s: float
    """CPU seconds of the process so far, without scoring."""

    success: float
    """Per cent of the held-out tasks."""


def schedule(rollouts: int) -> tuple[str, ...]:
    """Return the overrides that spread the learning rate's schedule over ``rollouts``."""
    steps = max(WARMUP + 1, rollouts // ROLLOUTS_A_STEP)
    return f"learner.steps={steps}", f"learner.warmup_steps={WARMUP}"


def in_folder(work: Callable[[Path], list[Point]]) -> list[Point]:
    """Return the result of ``work`` in a new folder, which has room for versions."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "versions").mkdir()
        return work(folder)


class Players:
    """An engine in this process, with agents that attempt tasks."""

    def __init__(self, config: RunConfig, run_dir: Path) -> None:
        """Serve the run's model; versions are read from ``run_dir``."""
        folder = model_folder(config.policy.model)
        self.renderer = TinyRenderer.load(folder)
        self.generator = TransformersGenerator(
            folder, run_dir, max_concurrent=CONCURRENT, max_length=config.rollout.max_tokens
        )
        self._sampled = ToolAgent(
            generator=self.generator,
            simulator=InProcessSimulator(),
            renderer=self.renderer,
            limits=config.rollout,
            temperature=config.rollout.temperature,
        )
        self._gate = asyncio.Semaphore(CONCURRENT)

    async def group(self, task: Task, number: int, config: RunConfig) -> Group:
        """Return the rollouts of one group, with the seeds that a run gives them."""
        size = config.rollout.group_size
        requests = group_requests(config, number, task.task_id)
        played = await asyncio.gather(
            *(self._play(self._sampled, task, f"g{number}/{r.index}", r.seed) for r in requests)
        )
        rollouts = [rollout_of(*each) for each in zip(requests, played, strict=True)]
        return Group(
            group_id=f"g{number}",
            number=number,
            task_id=task.task_id,
            sequences=tuple(range(number * size, (number + 1) * size)),
            rollouts=tuple((number * size + r.index, r) for r in rollouts),
        )

    async def success(self, tasks: Sequence[Task]) -> float:
        """Return the greedy success on ``tasks``, %."""
        greedy = replace(self._sampled, temperature=0.0)
        played = await asyncio.gather(
            *(self._play(greedy, task, f"score-{n}", 0) for n, task in enumerate(tasks))
        )
        return 100 * fmean(each.succeeded for each in played)

    async def _play(self, agent: ToolAgent, task: Task, session: str, seed: int) -> Episode:
        async with self._gate:
            return await agent.attempt(task, session, seed=seed)


async def learn(config: RunConfig, run_dir: Path, *, rollouts: int, every: int) -> list[Point]:
    """Train on the arm ``uniform`` for ``rollouts`` rollouts; score about every ``every``."""
    players = Players(config, run_dir)
    trainer = Trainer(config, model_folder(config.policy.model))
    held_out = held_out_tasks(settings_of(config, FilesystemConfig).held_out)
    points = [Point(step=0, rollouts=0, cpu_s=0.0, success=await players.success(held_out))]
    started = time.process_time()
    number = 0
    while points[-1].rollouts < rollouts:
        number, groups = await _informative(players, config, number)
        batch = tuple(
            BatchGroup(
                record=trained_group(group, config.learner),
                rollouts=tuple(rollout for _, rollout in group.rollouts),
                reference=None,
            )
            for group in groups
        )
        trainer.take_step(Batch(step=trainer.step + 1, groups=batch))
        await players.generator.load(write_version(run_dir, trainer, config))
        await remove_old_versions(LocalFiles(run_dir), trainer.step, config, ())
        used = number * config.rollout.group_size
        if used - points[-1].rollouts >= every or used >= rollouts:
            spent = time.process_time() - started
            success = await players.success(held_out)
            points.append(Point(step=trainer.step, rollouts=used, cpu_s=spent, success=success))
            started = time.process_time() - spent
    await players.generator.close()
    return points


async def _informative(
    players: Players, config: RunConfig, number: int
) -> tuple[int, Sequence[Group]]:
    """Return the next group's number, and a whole batch of groups that give a gradient."""
    wanted = config.learner.groups_per_step
    found: list[Group] = []
    most = number + wanted * (1 + config.learner.refill_batches)
    while len(found) < wanted and number < most:
        asked = range(number, number + wanted)
        number += wanted
        groups = await asyncio.gather(
            *(players.group(uniform_task(config.seed, n), n, config) for n in asked)
        )
        found += [g for g in groups if use_of(g, config.learner) != "nothing" or number >= most]
    return number, found
