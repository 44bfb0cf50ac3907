"""Builds each part from the run's config. Only this package composes classes of all packages.

The same functions serve the actors, with one part per process, and a loop in a single process.
Torch and transformers are imported inside the functions of the parts that use a model, so that
other processes start without them.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from collections.abc import Generator as Yielding
from contextlib import asynccontextmanager, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from coevolve.build.instances import InstanceMaker
from coevolve.curriculum.worker import Curriculum
from coevolve.delivery.engine import VerifiedEngine
from coevolve.engine.vllm import environment as vllm_environment
from coevolve.environments.interface import Environment
from coevolve.environments.registry import environment_of
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.reader import STORE_FOLDER, run_reader
from coevolve.learning.sharded.rpc import RankStarter
from coevolve.models.model_folder import model_config, model_folder
from coevolve.models.scratch_folder import scratch_folder
from coevolve.models.tiny_random.resolve import MODEL
from coevolve.parts.context import PartContext
from coevolve.parts.files import LocalFiles
from coevolve.rollouts.evaluator import Evaluator, OwnScores, Scorer
from coevolve.rollouts.scoring import OneVersion, RolloutScores, ScoringWorker
from coevolve.rollouts.served_version import ServedVersion
from coevolve.rollouts.trained_tasks import TrainedTasks
from coevolve.rollouts.turns import EngineTurns, SleepingEngine
from coevolve.rollouts.worker import RolloutWorker
from coevolve.signals.extractor import SignalExtractor
from coevolve.validation.validator import Validator
from protocols.config import RunConfig, TransformersEngine, VllmEngine
from protocols.interfaces import ComputingPart, Files, Generator, Part, SimulatorService, Store
from protocols.learning import PolicyVersion, TaskScore
from protocols.tasks import Task

if TYPE_CHECKING:
    from coevolve.learning.learner import Learner
    from coevolve.learning.sharded.worker import RankWorker

Simulators = Sequence[SimulatorService]


def context(config: RunConfig, run_dir: Path, store: Store) -> PartContext:
    """Return the context of a part on the journal's machine, which reads the memory-mapped file."""
    return PartContext(
        config=config, files=LocalFiles(run_dir), store=store, reader=run_reader(run_dir)
    )


def modules(config: RunConfig) -> tuple[str, ...]:
    """Return what takes the parts of a run longest to import, in a process that has no device."""
    kind = str(model_config(config.policy).get("model_type", "")).replace("-", "_")
    heavy = ["coevolve.learning.learner", f"transformers.models.{kind}.modeling_{kind}"]
    if isinstance(config.rollout.engine, TransformersEngine):
        heavy.append("coevolve.engine.generator")
    return (__name__, *heavy)


def labels(config: RunConfig) -> Mapping[str, tuple[str, ...]]:
    """Return, by task id, the labels under which each scored task's success is reported."""
    return environment_of(config).labels()


def skills(config: RunConfig) -> Mapping[str, tuple[str, ...]]:
    """Return the skills of each scored task by task id; empty if the task declares none."""
    tasks = environment_of(config).scored_tasks()
    return {task.task_id: task.skills for task in tasks}


def make_model(config: RunConfig, run_dir: Path) -> None:
    """Write the initial model of a run to its folder, if the run makes its own."""
    environment = environment_of(config)
    if config.policy.tiny_random:
        from coevolve.models.tiny_random.model import write_model

        write_model(config, run_dir / MODEL, environment.texts())
    else:
        environment.make_model(run_dir / MODEL)


@contextmanager
def spare_store() -> Yielding[tuple[Path, LocalStore]]:
    """Yield a folder with an empty journal; both are removed after the block."""
    with scratch_folder() as spare, closing(Journal.open(spare.path / STORE_FOLDER)) as journal:
        yield spare.path, LocalStore(journal)


def generator(context: PartContext, concurrent: int) -> Generator:
    """Return an engine that serves ``concurrent`` conversations at a time.

    Raises GeneratorError if the engine cannot serve the run's model.
    """
    return _engine(context.config, context.run_dir, concurrent)


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
    vllm_environment.require_vllm(settings)
    vllm_environment.set_variables(settings)
    from coevolve.engine.vllm.arguments import Limits
    from coevolve.engine.vllm.generator import VllmGenerator

    # One adapter per version that a rollout may lag behind, one for the newest, and one in
    # transfer.
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


def proven_engine(context: PartContext, name: str, generator: Generator) -> VerifiedEngine:
    """Return ``generator`` of the part ``name``, which now proves each version it serves."""
    return VerifiedEngine(
        name,
        generator,
        reader=context.reader,
        append=context.appender("delivery", name),
        files=context.files,
        config=context.config,
    )


def rollout_worker(
    context: PartContext, name: str, engine: Generator, simulators: Simulators
) -> RolloutWorker:
    """Return the part that answers rollout requests, and scores versions on the same engine."""
    proven = proven_engine(context, name, engine)
    config = context.config
    served = ServedVersion()
    on_rollout = config.evaluator.engine == "rollout"
    return RolloutWorker(
        name,
        config,
        store=context.store,
        reader=context.reader,
        engine=proven,
        agents=environment_of(config).agents(name, context, proven, simulators),
        served=served,
        scoring=_scoring(context, name, engine, simulators, served) if on_rollout else None,
        turns=_turns(context, name, engine),
    )


def _turns(context: PartContext, name: str, engine: Generator) -> EngineTurns | None:
    """Return what lets the engine sleep; None if it never does."""
    settings = context.config.rollout.engine
    if not (isinstance(settings, VllmEngine) and settings.sleeps):
        return None
    assert isinstance(engine, SleepingEngine)
    return EngineTurns(
        name,
        engine,
        store=context.store,
        reader=context.reader,
        append=context.appender("turns", name),
    )


def _scoring(
    context: PartContext,
    name: str,
    engine: Generator,
    simulators: Simulators,
    served: ServedVersion,
) -> ScoringWorker:
    environment = environment_of(context.config)
    proven = proven_engine(context, name, OneVersion(engine, served))
    return ScoringWorker(
        name,
        context.config,
        store=context.store,
        reader=context.reader,
        scorer=environment.scorer(context, proven, simulators),
        tasks=lambda: (*environment.scored_tasks(), *environment.canaries()),
        served=served,
        instantiate=InstanceMaker(environment),
    )


def rollout_engine(context: PartContext) -> Generator:
    """Return the engine of a rollout actor, with room for the attempts that are scored on it."""
    return generator(context, context.config.conversations)


def evaluator_engine(context: PartContext) -> Generator | None:
    """Return the evaluator's own engine; None if it scores on those of the rollout actors."""
    settings = context.config.evaluator
    return generator(context, settings.concurrent) if settings.engine == "own" else None


def evaluator(context: PartContext, engine: Generator | None, simulators: Simulators) -> Evaluator:
    """Return the part that scores policy versions, with ``engine`` or on the rollout engines."""
    environment = environment_of(context.config)
    if engine is None:
        source = RolloutScores(
            store=context.store,
            reader=context.reader,
            append=context.appender("scores", "evaluator"),
        )
    else:
        proven = proven_engine(context, "evaluator", engine)
        scorer = environment.scorer(context, proven, simulators)
        source = OwnScores(context.config, proven, scorer)
    return Evaluator(
        context.config,
        store=context.store,
        source=source,
        tasks=environment.scored_tasks(),
        canaries=environment.canaries(),
        trained=TrainedTasks(context.reader, context.config.seed),
        instantiate=InstanceMaker(environment),
    )


class Scoring:
    """Scores one version on tasks."""

    def __init__(
        self, environment: Environment, scorer: Scorer, simulator: SimulatorService, concurrent: int
    ) -> None:
        self.environment = environment
        self._scorer = scorer
        self._simulator = simulator
        self._gate = asyncio.Semaphore(concurrent)
        self._attempts = count()

    async def of(self, tasks: Sequence[Task]) -> tuple[TaskScore, ...]:
        """Return the score of each task. Raises SimulatorError and GeneratorError."""
        return tuple(await asyncio.gather(*map(self._score, tasks)))

    async def instances(self, tasks: Sequence[Task], seed: int) -> Mapping[str, Task]:
        """Return further instances of tasks, as the environment makes them."""
        return await self.environment.instances(tasks, seed, [self._simulator])

    async def _score(self, task: Task) -> TaskScore:
        async with self._gate:
            return await self._scorer.score(task, f"score-{next(self._attempts)}")


@asynccontextmanager
async def scoring(
    context: PartContext, version: PolicyVersion | None = None
) -> AsyncGenerator[Scoring]:
    """Yield what scores a version; the default is the model at the start.

    Raises DeliveryError and GeneratorError.
    """
    environment, concurrent = environment_of(context.config), context.config.evaluator.concurrent
    engine = generator(context, concurrent)
    simulator = environment.simulator()
    proven = proven_engine(context, "evaluator", engine)
    try:
        if version is not None:
            await proven.serve(version)
        scorer = environment.scorer(context, proven, [simulator])
        yield Scoring(environment, scorer, simulator, concurrent)
    finally:
        await engine.close()
        await simulator.close()


def curriculum(context: PartContext) -> Curriculum:
    """Return the part that requests rollouts."""
    environment = environment_of(context.config)
    return Curriculum(
        context.config,
        store=context.store,
        reader=context.reader,
        open_sampler=environment.sampler,
        held_out=environment.scored_tasks(),
        instantiate=InstanceMaker(environment) if context.config.pool.new_instances else None,
    )


def signals(context: PartContext, simulators: Simulators) -> SignalExtractor:
    """Return the part that finds weaknesses in rollouts."""
    environment = environment_of(context.config)
    return SignalExtractor(
        context.config,
        store=context.store,
        reader=context.reader,
        open_observer=lambda: environment.observer(context, simulators),
    )


def synthesizer(context: PartContext, simulators: Simulators) -> ComputingPart:
    """Return the part that makes tasks from signals."""
    return environment_of(context.config).synthesizer(context, simulators)


def validator(context: PartContext, simulators: Simulators) -> Part:
    """Return the part that judges candidates."""
    environment = environment_of(context.config)
    return Validator(
        context.config,
        store=context.store,
        reader=context.reader,
        gates=environment.gates(context, simulators),
        open_index=environment.task_index,
        wordings=environment.wordings,
        held_out=[each for each in environment.scored_tasks() if each.split == "held_out"],
        judge=environment.judge(context),
    )


def rank_worker(rank: int, config: RunConfig, files: Files) -> "RankWorker":
    """Return one of the learner's other ranks, which uses the GPU that its process sees."""
    from coevolve.learning.sharded.worker import RankWorker

    return RankWorker(rank, config, model_folder(config.policy.model), files)


def learner(context: PartContext, ranks: RankStarter | None = None) -> "Learner":
    """Return the part that trains; ``ranks`` starts its processes on other devices.

    By default they are processes of this machine.
    """
    from coevolve.learning.learner import Learner

    return Learner(
        context.config,
        context.files,
        store=context.store,
        reader=context.reader,
        supervision=environment_of(context.config).supervision(context.reader),
        starter=ranks,
    )
