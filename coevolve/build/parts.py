"""Puts each part together from the run's config: which class stands behind which interface.

The same functions serve the actors, one part to a process, and a loop that runs in one process.
Torch and transformers load inside the functions of the parts that use a model, so that the other
processes start without them.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coevolve.curriculum.task_sampler import Supply, of_source
from coevolve.curriculum.worker import Curriculum
from coevolve.delivery.engine import ProvenEngine
from coevolve.engine.vllm import environment
from coevolve.environments.hdl import assembly as hardware
from coevolve.environments.tools.bfcl.catalogue import tool_documents
from coevolve.environments.tools.bfcl.source import BfclSource, category_of
from coevolve.environments.tools.bfcl.worker import BfclWorker
from coevolve.environments.tools.filesystem.grammar import group_of
from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.filesystem.sources import StaticSource, UniformSource
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.journal.mailbox import Mailbox
from coevolve.journal.reader import run_reader
from coevolve.llm.recorded_calls import Append
from coevolve.models.model_files import has_chat_template
from coevolve.models.model_folder import model_folder
from coevolve.rollouts.conversation import Arena, Player
from coevolve.rollouts.evaluator import Evaluator, Examiner, ToolExaminer
from coevolve.rollouts.worker import RolloutWorker
from coevolve.signals.extractor import Observer, SignalExtractor, ToolObserver
from protocols.config import RunConfig, TransformersEngine, VllmEngine
from protocols.interfaces import (
    Generator,
    GrammarOf,
    Reader,
    Renderer,
    SimulatorWorker,
    Store,
    TaskSource,
)
from protocols.learning import PolicyVersion, TaskScore
from protocols.objectives import PolicyGradient
from protocols.tasks import AnyTask, Task
from protocols.transitions import Writer

if TYPE_CHECKING:
    from coevolve.learning.learner import Learner

ROLLOUT_GATHER_S = 0.1
"""How long a rollout's command waits for others: what a worker's call costs is shared by more."""


def labels(config: RunConfig) -> dict[str, tuple[str, ...]]:
    """Return the groups that each scored task's success is reported under, by task id."""
    if config.domain == "hdl":
        return hardware.labels(config)
    return {
        task.task_id: (
            "one turn" if len(task.body.turns) == 1 else "several turns",
            *_kinds(config, task),
        )
        for task in task_source(config).held_out()
    }


def skills(config: RunConfig) -> dict[str, tuple[str, ...]]:
    """Return what each scored task exercises, by task id; empty where that is not known."""
    tasks = _examined(config)
    return {task.task_id: task.skills for task in tasks if isinstance(task, Task)}


def _kinds(config: RunConfig, task: Task) -> tuple[str, ...]:
    """Return what a held-out task is called besides its length."""
    if config.tasks.source == "bfcl":
        return (category_of(task),)
    group = group_of(task)
    return () if group == "multi" else (f"skill {group}",)


def renderer(config: RunConfig) -> Renderer:
    """Return what turns text into the policy's tokens.

    Raises ConfigError where the model is neither the tiny policy nor one to chat with.
    """
    folder = model_folder(config.policy.model)
    if not has_chat_template(folder):
        return TinyRenderer.load(folder)
    from coevolve.environments.tools.chat.renderer import ChatRenderer

    return ChatRenderer.load(folder, config.policy.chat)


def reference_renderer(config: RunConfig) -> Renderer | None:
    """Return what writes the references of tasks; None where the domain's tasks have none."""
    return None if config.domain == "hdl" else renderer(config)


def grammar_of(config: RunConfig, reader: Reader) -> GrammarOf | None:
    """Return what tells the grammars that a policy gradient has to know; None without any."""
    has = config.domain == "hdl" and isinstance(config.learner.objective, PolicyGradient)
    return hardware.grammar_of(config, reader) if has else None


def task_source(config: RunConfig) -> TaskSource:
    """Return where the tasks come from that the run does not make itself."""
    if config.tasks.source == "bfcl":
        return BfclSource(config)
    return UniformSource(config) if config.arm == "uniform" else StaticSource(config)


def tools(config: RunConfig) -> tuple[str, ...]:
    """Return the names of the tools that the run's tasks offer."""
    source = task_source(config)
    bodies = (source.start(0), *(task.body for task in source.pool()))
    classes = dict.fromkeys(name for body in bodies for name in body.classes)
    return tuple(document.name for name in classes for document in tool_documents(name))


def simulator_worker(config: RunConfig) -> BfclWorker:
    """Return one member of the simulator pool."""
    return BfclWorker(config.simulator)


Simulators = Sequence[SimulatorWorker] | hardware.HardwareSimulators
"""The simulators that rollouts use, by the run's domain."""


@dataclass(frozen=True)
class Site:
    """Where a part works: the run's settings and folder, and the journal from there."""

    config: RunConfig
    run_dir: Path
    store: Store
    reader: Reader


def site(config: RunConfig, run_dir: Path, store: Store) -> Site:
    """Return the site of a part on the journal's machine: it reads the map itself."""
    return Site(config=config, run_dir=run_dir, store=store, reader=run_reader(run_dir))


def generator(site: Site, concurrent: int) -> Generator:
    """Return an engine that serves ``concurrent`` conversations at a time.

    Raises GeneratorError where the engine cannot serve the run's model.
    """
    return _engine(site.config, site.run_dir, concurrent)


def _engine(config: RunConfig, run_dir: Path, concurrent: int) -> Generator:
    folder = model_folder(config.policy.model)
    match config.rollout.engine:
        case TransformersEngine() as settings:
            from coevolve.engine.generator import TransformersGenerator

            return TransformersGenerator(
                folder,
                run_dir,
                max_concurrent=concurrent,
                max_length=config.rollout.max_tokens,
                dtype=settings.dtype,
            )
        case VllmEngine() as settings:
            return _vllm_engine(config, run_dir, settings, concurrent)


def _vllm_engine(
    config: RunConfig, run_dir: Path, settings: VllmEngine, concurrent: int
) -> Generator:
    environment.settle(settings)
    from coevolve.engine.vllm.core import Limits
    from coevolve.engine.vllm.generator import VllmGenerator

    # One adapter for each version that rollouts may be behind, the newest, and one on its way.
    adapters = config.learner.max_staleness + 2
    return VllmGenerator(
        model_folder(config.policy.model),
        run_dir,
        settings,
        Limits(
            concurrent=concurrent,
            length=config.rollout.max_tokens,
            adapters=adapters if settings.deliver == "adapter" else 0,
            rank=config.policy.lora_rank,
        ),
        seed=config.seed,
    )


def proven_engine(site: Site, name: str, generator: Generator) -> ProvenEngine:
    """Return ``generator``, of the part ``name``, so that every version it serves is proven."""
    return ProvenEngine(
        name,
        generator,
        reader=site.reader,
        append=append_at_once(site, name),
        run_dir=site.run_dir,
        config=site.config,
    )


def append_at_once(site: Site, name: str) -> Append:
    """Return what writes records of the part ``name`` without waiting for others."""
    mailbox = Mailbox(
        site.store,
        consumer="delivery",
        topics=(),
        member=name,
        lease_s=site.config.store.lease_s,
    )
    return mailbox.append


def rollout_worker(
    site: Site, name: str, engine: Generator, simulators: Simulators
) -> RolloutWorker:
    """Return the part that answers rollout requests."""
    proven = proven_engine(site, name, engine)
    return RolloutWorker(
        name,
        site.config.rollout,
        store=site.store,
        reader=site.reader,
        engine=proven,
        players=_players(site, name, proven, simulators),
        lease_s=site.config.store.lease_s,
    )


def evaluator(site: Site, engine: Generator, simulators: Simulators) -> Evaluator:
    """Return the part that scores policy versions."""
    config = site.config
    player = _player(
        site, engine, simulators, temperature=config.hdl.evaluation_temperature, gather_s=0.0
    )
    return Evaluator(
        config,
        store=site.store,
        engine=proven_engine(site, "evaluator", engine),
        examiner=_examiner(config, player),
        tasks=_examined(config),
        canaries=canaries(config),
    )


async def scores(config: RunConfig, run_dir: Path, version: PolicyVersion) -> Mapping[str, float]:
    """Return the greedy score of a version of ``run_dir`` on each held-out task, by task id.

    For tasks with tools. Raises SimulatorError and GeneratorError.
    """
    engine = _engine(config, run_dir, config.evaluator.concurrent)
    worker = simulator_worker(config)
    examiner = ToolExaminer(_arena(config, engine, [worker], temperature=0.0, gather_s=0.0))
    gate = asyncio.Semaphore(config.evaluator.concurrent)

    async def score(number: int, task: Task) -> TaskScore:
        async with gate:
            return await examiner.examine(task, f"score-{number}")

    try:
        await engine.load(version)
        tasks = task_source(config).held_out()
        found = await asyncio.gather(*(score(*each) for each in enumerate(tasks)))
    finally:
        await engine.close()
        await worker.close()
    return {each.task_id: each.score for each in found}


def canaries(config: RunConfig) -> Sequence[AnyTask]:
    """Return the guard's tasks; with hardware designs those that the run trains on."""
    if config.domain == "hdl":
        return [task for task in hardware.examined(config) if task.split == "train"]
    return task_source(config).canaries(config.learner.guard.tasks)


def _players(
    site: Site, name: str, engine: ProvenEngine, simulators: Simulators
) -> Mapping[Writer, Player]:
    """Return who attempts tasks in the part ``name``, by who is to write."""
    players: dict[Writer, Player] = {
        "policy": _player(
            site,
            engine.generator,
            simulators,
            temperature=site.config.rollout.temperature,
            gather_s=ROLLOUT_GATHER_S,
        )
    }
    writers = {writer for stage in site.config.hdl.stages for writer in stage.writers}
    if "grammar" in writers:
        players["grammar"] = _player(
            site, engine.generator, simulators, temperature=hardware.UNIFORM, gather_s=0.0
        )
    if "teacher" in writers:
        players["teacher"] = _teacher(site, name, engine, simulators)
    return players


def _teacher(site: Site, name: str, engine: ProvenEngine, simulators: Simulators) -> Player:
    model = site.config.hdl.teacher.model
    assert isinstance(simulators, hardware.HardwareSimulators), "only testbenches are taught"
    assert model is not None, "a run file whose stages have a teacher names its model"
    return hardware.teachers_workbench(
        site.config,
        model,
        simulators.workers,
        site.reader,
        run_dir=site.run_dir,
        served=lambda: engine.version,
        append=append_at_once(site, name),
    )


def _player(
    site: Site,
    engine: Generator,
    simulators: Simulators,
    *,
    temperature: float,
    gather_s: float,
) -> Player:
    """Return what lets the policy attempt the tasks of the run's domain."""
    if isinstance(simulators, hardware.HardwareSimulators):
        return hardware.workbench(
            site.config, engine, simulators.workers, site.reader, temperature=temperature
        )
    return _arena(site.config, engine, simulators, temperature=temperature, gather_s=gather_s)


def _arena(
    config: RunConfig,
    engine: Generator,
    simulators: Sequence[SimulatorWorker],
    *,
    temperature: float,
    gather_s: float,
) -> Arena:
    """Return what lets the policy attempt tasks with tools."""
    return Arena(
        generator=engine,
        simulator=SimulatorPool(simulators, gather_s=gather_s),
        renderer=renderer(config),
        limits=config.rollout,
        temperature=temperature,
    )


def _examiner(config: RunConfig, player: Player) -> Examiner:
    return hardware.examiner(config, player) if config.domain == "hdl" else ToolExaminer(player)


def _examined(config: RunConfig) -> Sequence[AnyTask]:
    """Return the tasks that versions are scored on: the held-out ones, or every design."""
    return hardware.examined(config) if config.domain == "hdl" else task_source(config).held_out()


def curriculum(site: Site) -> Curriculum:
    """Return the part that asks for rollouts."""
    return Curriculum(
        site.config,
        store=site.store,
        reader=site.reader,
        open_supply=lambda: supply(site.config),
    )


def supply(config: RunConfig) -> Supply:
    """Return where the run's groups take their tasks from; nothing is folded into it yet."""
    if config.domain == "hdl":
        return hardware.frontier(config)
    return of_source(config, task_source(config))


def signals(site: Site, simulators: Simulators) -> SignalExtractor:
    """Return the part that finds weaknesses in rollouts."""
    return SignalExtractor(
        site.config,
        store=site.store,
        reader=site.reader,
        open_observer=_observers(site, simulators),
    )


def _observers(site: Site, simulators: Simulators) -> Callable[[], Observer]:
    """Return what makes the observer of the run's domain."""
    if isinstance(simulators, hardware.HardwareSimulators):
        from coevolve.environments.hdl.evolution.assembly import observer

        return lambda: observer(site.config, site.reader, simulators.workers)
    names = tools(site.config)
    return lambda: ToolObserver(site.config, names)


def learner(site: Site) -> "Learner":
    """Return the part that trains."""
    from coevolve.learning.learner import Learner

    return Learner(
        site.config,
        site.run_dir,
        store=site.store,
        reader=site.reader,
        renderer=reference_renderer(site.config),
        grammar_of=grammar_of(site.config, site.reader),
    )
