"""Puts each part together from the run's config: which class stands behind which interface.

The same functions serve the actors, one part to a process, and a loop that runs in one process.
Torch and transformers load inside the functions of the parts that use a model, so that the other
processes start without them.
"""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coevolve.bfcl.worker import BfclWorker
from coevolve.curriculum import Curriculum
from coevolve.evaluator import Evaluator
from coevolve.journal.reader import JournalReader
from coevolve.learning.model_folder import model_folder
from coevolve.rollout_worker import RolloutWorker
from coevolve.simulator_pool import SimulatorPool
from coevolve.tiny.grammar import group_of
from coevolve.tiny.renderer import TinyRenderer
from coevolve.tiny.sources import StaticSource, UniformSource
from protocols.config import RunConfig
from protocols.errors import DependencyError
from protocols.interfaces import (
    Generator,
    Reader,
    Renderer,
    SimulatorWorker,
    Store,
    TaskSource,
)

if TYPE_CHECKING:
    from coevolve.learning.learner import Learner

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


def simulator_worker(config: RunConfig) -> BfclWorker:
    """Return one member of the simulator pool."""
    return BfclWorker(config.simulator)


@dataclass(frozen=True)
class Site:
    """Where a part works: the run's settings and folder, and the journal from there."""

    config: RunConfig
    run_dir: Path
    store: Store
    reader: Reader


def site(config: RunConfig, run_dir: Path, store: Store) -> Site:
    """Return the site of a part on the journal's machine: it reads the map itself."""
    return Site(config=config, run_dir=run_dir, store=store, reader=reader(run_dir))


def generator(site: Site, concurrent: int) -> Generator:
    """Return an engine that serves ``concurrent`` conversations at a time."""
    from coevolve.engine.generator import TransformersGenerator

    return TransformersGenerator(
        model_folder(site.config.policy.model),
        site.run_dir,
        max_concurrent=concurrent,
        max_length=site.config.rollout.max_tokens,
    )


def rollout_worker(
    site: Site, name: str, engine: Generator, workers: Sequence[SimulatorWorker]
) -> RolloutWorker:
    """Return the part that answers rollout requests."""
    return RolloutWorker(
        name,
        site.config.rollout,
        store=site.store,
        reader=site.reader,
        generator=engine,
        simulator=SimulatorPool(workers),
        renderer=renderer(site.config),
        lease_s=site.config.store.lease_s,
    )


def evaluator(site: Site, engine: Generator, workers: Sequence[SimulatorWorker]) -> Evaluator:
    """Return the part that scores policy versions."""
    return Evaluator(
        site.config,
        store=site.store,
        generator=engine,
        simulator=SimulatorPool(workers),
        renderer=renderer(site.config),
        held_out=task_source(site.config).held_out(),
    )


def curriculum(site: Site) -> Curriculum:
    """Return the part that asks for rollouts."""
    return Curriculum(
        site.config, store=site.store, reader=site.reader, source=task_source(site.config)
    )


def learner(site: Site) -> "Learner":
    """Return the part that trains."""
    from coevolve.learning.learner import Learner

    return Learner(
        site.config,
        site.run_dir,
        store=site.store,
        reader=site.reader,
        renderer=renderer(site.config),
    )
