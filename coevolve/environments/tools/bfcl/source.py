"""BFCL's own multi-turn tasks as what a run trains on and is scored on.

Training and held-out tasks are kept apart by world, whatever the run's seed (the split of
`bfcl.catalogue`): no training task, and no state to explore from, shares an initial
scenario with a held-out task. Every task's reference is carried out when the source is opened; the
answers are recorded in the task. One whose reference fails here, or ends in an error, is left out
and counted: none of the 800 of bfcl-eval 2026.3.23.
"""

from collections.abc import Sequence
from functools import cache

import msgspec
import numpy as np
import structlog

from coevolve.environments.tools.bfcl.catalogue import load_tasks
from coevolve.environments.tools.bfcl.trial import TrialRun
from protocols.config import RunConfig, TasksConfig
from protocols.errors import ConfigError
from protocols.simulation import Failed, Tried
from protocols.synthesis import Start
from protocols.tasks import Split, Task, ToolTask

_HELD_OUT_STREAM = 1
_POOL_STREAM = 2
_CHOICE_STREAM = 3
_START_STREAM = 4
_CANARY_STREAM = 5

log = structlog.get_logger()


class BfclSource:
    """A `protocols.interfaces.TaskSource`: a fixed pool of the benchmark's training tasks."""

    def __init__(self, config: RunConfig) -> None:
        """Carry out every reference. Raises ConfigError where one side of the split is empty."""
        self._seed = config.seed
        tasks = _checked(config.tasks)
        train = _shuffled(tasks, "train", (config.tasks.split_seed, _CANARY_STREAM))
        watched = config.learner.guard.tasks if config.learner.guard.action != "none" else 0
        # A guard that took most of a small training split would leave nothing to train on.
        self._canaries = train[: min(watched, len(train) // 4)]
        self._train = _shuffled(train[len(self._canaries) :], "train", (config.seed, _POOL_STREAM))
        self._pool = self._train[: config.tasks.seeds]
        held_out = _shuffled(tasks, "held_out", (config.tasks.split_seed, _HELD_OUT_STREAM))
        self._held_out = held_out[: config.tasks.held_out]
        if not (self._train and held_out):
            raise ConfigError(
                f"tasks.held_out_share: {config.tasks.held_out_share} leaves {len(self._train)} "
                f"training tasks and {len(held_out)} held-out ones, at least 1 of each is needed; "
                "use one nearer to 0.5, or another tasks.split_seed"
            )

    def pool(self) -> Sequence[Task]:
        """Return as many training tasks as were asked for, drawn by the run's seed."""
        return self._pool

    def draw(self, number: int) -> tuple[Task, bool]:
        """Return a task of the pool, which the journal has."""
        rng = np.random.default_rng((self._seed, _CHOICE_STREAM, number))
        return self._pool[int(rng.integers(len(self._pool)))], False

    def held_out(self) -> Sequence[Task]:
        """Return the held-out tasks, the same for every seed of a run."""
        return self._held_out

    def canaries(self, count: int) -> Sequence[Task]:
        """Return training tasks that are in no run's pool, the same for every seed of a run."""
        return self._canaries[:count]

    def start(self, number: int) -> Start:
        """Return the world of a training task, of the pool or not."""
        rng = np.random.default_rng((self._seed, _START_STREAM, number))
        task = self._train[int(rng.integers(len(self._train)))]
        return Start(
            origin=task.task_id,
            classes=task.body.classes,
            world=task.body.world,
            long_context=task.body.long_context,
        )


def category_of(task: Task) -> str:
    """Return which of the benchmark's categories a task of it belongs to."""
    return task.task_id.removeprefix("multi_turn_").rpartition("_")[0]


def _checked(settings: TasksConfig) -> list[Task]:
    """Return the tasks whose reference passes, with its answers; the log says what others lack."""
    passed: list[Task] = []
    left_out: dict[str, str] = {}
    for task in load_tasks(
        tuple(dict.fromkeys(settings.categories)),
        split_seed=settings.split_seed,
        held_out_share=settings.held_out_share,
    ):
        tried = _carried_out(task.body)
        reason = fault(tried)
        if reason:
            left_out[task.task_id] = reason
        else:
            passed.append(_answered(task, tried))
    if left_out:
        log.warning("bfcl_tasks_left_out", count=len(left_out), reasons=left_out)
    return passed


@cache
def _carried_out(body: ToolTask) -> Tried:
    return TrialRun(body, [turn.reference for turn in body.turns]).play()


def fault(tried: Tried) -> str:
    """Return what is wrong with a reference that was carried out; empty where nothing is."""
    for number, turn in enumerate(tried.turns):
        if isinstance(turn.verdict, Failed):
            return f"turn {number} fails: {turn.verdict.reason}"
        for observed in turn.observed:
            if observed.failed:
                return f"turn {number} answers by an error: {observed.result}"
    return ""


def _answered(task: Task, tried: Tried) -> Task:
    turns = tuple(
        msgspec.structs.replace(turn, results=tuple(each.result for each in played.observed))
        for turn, played in zip(task.body.turns, tried.turns, strict=True)
    )
    return msgspec.structs.replace(task, body=msgspec.structs.replace(task.body, turns=turns))


def _shuffled(tasks: Sequence[Task], split: Split, seed: tuple[int, int]) -> tuple[Task, ...]:
    side = [task for task in tasks if task.split == split]
    order: list[int] = np.random.default_rng(seed).permutation(len(side)).tolist()
    return tuple(side[number] for number in order)
