"""Puts each part together from the run's config: which class stands behind which interface.

The same functions serve the actors, one part to a process, and a loop that runs in one process.
Torch and transformers load inside the functions of the parts that use a model, so that the other
processes start without them.
"""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from coevolve.curriculum import Curriculum
from coevolve.evaluator import Evaluator
from coevolve.journal_reader import JournalReader
from coevolve.policy_folder import model_folder
from coevolve.rollout_worker import RolloutWorker
from coevolve.simulator_pool import SimulatorPool
from coevolve.tiny.grammar import group_of
from coevolve.tiny.renderer import TinyRenderer
from coevolve.tiny.sources import StaticSource, UniformSource
from protocols.config import RunConfig
from protocols.errors import DependencyError
from protocols.interfaces import (
    Generator,
    Part,
    Reader,
    Renderer,
    SimulatorWorker,
    Store,
    TaskSource,
)

if TYPE_CHECKING:
    from coevolve.learner import Learner

STORE_FOLDER = "store"
NEEDED = (("bfcl_eval", "bfcl-eval"), ("torch", "torch"), ("transformers", "transformers"))


def check(config: RunConfig) -> None:
    """Check what the config names beyond itself, before anything is written.

    Raises:
        ConfigError: The model is not there.
        DependencyError: A package that the run needs is not installed.
    """
    for package, distribution in NEEDED:
        if importlib.util.find_spec(package) is None:
            raise DependencyError(
                f"the run needs the package {distribution}, which is not installed; "
                f"`make quickstart` installs everything, or: pip install {distribution}"
            )
    model_folder(config.policy.model)


def labels(config: RunConfig) -> dict[str, tuple[str, ...]]:
    """Return the groups that each held-out task's success is reported under, by task id."""
    return {
        task.task_id: (
            "one turn" if len(task.body.turns) == 1 else "several turns",
            *(f"skill {group}" for group in [group_of(task)] if group != "multi"),
        )
        for task in task_source(config).held_out()
    }


def reader(run_dir: Path) -> Reader:
    """Return read access to the run's journal, by its map."""
    return JournalReader(run_dir / STORE_FOLDER)


def renderer(config: RunConfig) -> Renderer:
    """Return what turns text into the policy's tokens."""
    return TinyRenderer.load(model_folder(config.policy.model))


def task_source(config: RunConfig) -> TaskSource:
    """Return where tasks come from."""
    match config.tasks.source:
        case "static":
            return StaticSource(config)
        case "uniform":
            return UniformSource(config)


def generator(config: RunConfig, run_dir: Path, concurrent: int) -> Generator:
    """Return an engine that serves ``concurrent`` conversations at a time."""
    from coevolve.generator import TransformersGenerator

    return TransformersGenerator(
        model_folder(config.policy.model),
        run_dir,
        max_concurrent=concurrent,
        max_length=config.rollout.max_tokens,
    )


def simulator_worker(config: RunConfig) -> SimulatorWorker:
    """Return one member of the simulator pool."""
    from coevolve.bfcl.worker import BfclWorker

    return BfclWorker(config.simulator)


def rollout_worker(
    name: str,
    config: RunConfig,
    run_dir: Path,
    engine: Generator,
    store: Store,
    workers: Sequence[SimulatorWorker],
) -> Part:
    """Return the part that answers rollout requests."""
    return RolloutWorker(
        name,
        config.rollout,
        store=store,
        reader=reader(run_dir),
        generator=engine,
        simulator=SimulatorPool(workers),
        renderer=renderer(config),
        lease_s=config.store.lease_s,
    )


def evaluator(
    config: RunConfig, engine: Generator, store: Store, workers: Sequence[SimulatorWorker]
) -> Part:
    """Return the part that scores policy versions."""
    return Evaluator(
        config,
        store=store,
        generator=engine,
        simulator=SimulatorPool(workers),
        renderer=renderer(config),
        held_out=task_source(config).held_out(),
    )


def curriculum(config: RunConfig, run_dir: Path, store: Store) -> Part:
    """Return the part that asks for rollouts."""
    return Curriculum(config, store=store, reader=reader(run_dir), source=task_source(config))


def learner(config: RunConfig, run_dir: Path, store: Store) -> "Learner":
    """Return the part that trains."""
    from coevolve.learner import Learner

    return Learner(config, run_dir, store=store, reader=reader(run_dir), renderer=renderer(config))
