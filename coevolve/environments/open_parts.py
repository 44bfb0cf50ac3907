"""Opens each part of the loop with what the run's environment gives it (`coevolve.loop`).

Torch is imported inside the function of the part that trains, so that other processes start without
it.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import cast

import structlog

from coevolve.curriculum.worker import Curriculum
from coevolve.delivery.engine import VerifiedEngine
from coevolve.engine.open_engine import open_engine
from coevolve.environments.interface import Environment
from coevolve.environments.registry import environment_of
from coevolve.learning.sharded.rpc import RankStarter
from coevolve.parts.context import PartContext
from coevolve.rollouts.evaluator import Evaluator, OwnScores, ScoreSource
from coevolve.rollouts.scoring import OneVersion, RolloutScores, ScoringWorker
from coevolve.rollouts.served_version import ServedVersion
from coevolve.rollouts.trained_tasks import TrainedTasks
from coevolve.rollouts.turns import engine_turns
from coevolve.rollouts.worker import RolloutWorker
from coevolve.signals.extractor import SignalExtractor
from coevolve.validation.validator import Validator
from protocols.config import RunConfig
from protocols.errors import SimulatorError
from protocols.interfaces import ComputingPart, Generator, Part, SimulatorService
from protocols.journal import Message
from protocols.tasks import Task

log = structlog.get_logger()

Simulators = Sequence[SimulatorService]
Kinds = tuple[type[Message], ...]


@dataclass(frozen=True, kw_only=True)
class PartInputs:
    """What a part is opened with."""

    name: str
    """The part's own name, for example ``rollout-0``."""

    context: PartContext
    simulators: Simulators = ()
    engine: Generator | None = None
    """The engine that samples for this part; None if the part needs none."""

    ranks: RankStarter | None = None
    """Starts the learner on other devices; by default in processes of this machine."""

    @property
    def config(self) -> RunConfig:
        """The run's settings."""
        return self.context.config

    @property
    def environment(self) -> Environment:
        """A new object of the run's environment."""
        return environment_of(self.config)

    @property
    def sampling(self) -> Generator:
        """The engine of a part that cannot do without one."""
        assert self.engine is not None
        return self.engine


@dataclass(frozen=True)
class Party:
    """Someone who writes to a run's journal."""

    name: str
    takes: Kinds = field(default=(), kw_only=True)
    """Kinds of records that it takes and answers, each once."""

    reads: Kinds = field(default=(), kw_only=True)
    """Other kinds that it needs. It also reads what it has given itself, when it starts again."""

    gives: Kinds = field(kw_only=True)
    """Kinds of records that it writes."""


@dataclass(frozen=True)
class PartSpec(Party):
    """A part of the loop (`coevolve.loop`)."""

    open: Callable[[PartInputs], Part]
    _: KW_ONLY
    exists: Callable[[RunConfig], bool] = lambda _: True
    conversations: Callable[[RunConfig], int] = lambda _: 0
    """How many conversations its own engine has at a time, at most; 0 if it has no engine."""

    has_model: bool = False
    """Whether it computes with a model itself."""

    is_optional: bool = False
    """Whether training goes on without it."""

    is_pooled: bool = False
    """Whether a run may have several, each with an engine."""

    is_sharded: bool = False
    """Whether it may use several devices, with a process for each."""

    def loads(self, config: RunConfig) -> bool:
        """Return whether the part loads a model."""
        return self.has_model or self.conversations(config) > 0


class OpenPart:
    """A part that is open in this process, with its own engine, if it has one."""

    def __init__(
        self,
        spec: PartSpec,
        context: PartContext,
        simulators: Simulators = (),
        *,
        name: str = "",
        ranks: RankStarter | None = None,
    ) -> None:
        """Open the part ``name``, by default the only one of its kind.

        Raises GeneratorError if the engine cannot serve the run's model.
        """
        conversations = spec.conversations(context.config)
        self._engine = (
            open_engine(context.config, context.run_dir, conversations) if conversations else None
        )
        self.part = spec.open(
            PartInputs(
                name=name or spec.name,
                context=replace(context, takes=spec.takes),
                simulators=simulators,
                engine=self._engine,
                ranks=ranks,
            )
        )
        self._has_model = spec.has_model

    def cpu_s(self) -> float:
        """Return the CPU seconds spent in a model so far; 0 if the part has none here."""
        if self._engine is not None:
            return self._engine.cpu_s()
        return cast("ComputingPart", self.part).cpu_s() if self._has_model else 0.0

    async def close(self) -> None:
        """Stop the engine."""
        if self._engine is not None:
            await self._engine.close()


class InstanceMaker:
    """A `coevolve.curriculum.worker.Instantiate`; the simulator starts with the first instance."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._simulator: SimulatorService | None = None

    async def __call__(self, task: Task, instance: int) -> Task | None:
        """Return the instance; None if there is none, or if the simulator failed."""
        if self._simulator is None:
            self._simulator = self._environment.simulator()
        try:
            made = await self._environment.instances((task,), instance, (self._simulator,))
        except SimulatorError as error:
            log.warning("instance_failed", task=task.task_id, reason=str(error))
            return None
        return made.get(task.task_id)


def curriculum(given: PartInputs) -> Part:
    """Return the part that requests rollouts."""
    environment = given.environment
    return Curriculum(
        given.context,
        open_sampler=environment.sampler,
        held_out=environment.scored_tasks(),
        instantiate=InstanceMaker(environment) if given.config.pool.new_instances else None,
    )


def rollout_worker(given: PartInputs) -> Part:
    """Return the part that answers rollout requests, and scores versions on the same engine."""
    proven = VerifiedEngine(given.context, given.name, given.sampling)
    served = ServedVersion()
    return RolloutWorker(
        given.context,
        given.name,
        engine=proven,
        agents=given.environment.agents(given.name, given.context, proven, given.simulators),
        served=served,
        scoring=_scoring(given, served) if given.config.evaluator.engine == "rollout" else None,
        turns=engine_turns(given.context, given.name, given.sampling),
    )


def _scoring(given: PartInputs, served: ServedVersion) -> ScoringWorker:
    environment = given.environment
    proven = VerifiedEngine(given.context, given.name, OneVersion(given.sampling, served))
    return ScoringWorker(
        given.context,
        given.name,
        scorer=environment.scorer(given.context, proven, given.simulators),
        tasks=lambda: (*environment.scored_tasks(), *environment.canaries()),
        served=served,
        instantiate=InstanceMaker(environment),
    )


def signals(given: PartInputs) -> Part:
    """Return the part that finds weaknesses in rollouts."""
    environment = given.environment
    return SignalExtractor(
        given.context, lambda: environment.observer(given.context.reader, given.simulators)
    )


def synthesizer(given: PartInputs) -> ComputingPart:
    """Return the part that makes tasks from signals."""
    return given.environment.synthesizer(given.context, given.simulators)


def validator(given: PartInputs) -> Part:
    """Return the part that judges candidates."""
    environment = given.environment
    return Validator(
        given.context,
        gates=environment.gates(given.context, given.simulators),
        open_index=environment.task_index,
        wordings=environment.wordings,
        held_out=[each for each in environment.scored_tasks() if each.split == "held_out"],
        judge=environment.judge(given.context),
    )


def learner(given: PartInputs) -> ComputingPart:
    """Return the part that trains."""
    from coevolve.learning.learner import Learner

    return Learner(
        given.context,
        supervision=given.environment.supervision(given.context.reader),
        starter=given.ranks,
    )


def evaluator(given: PartInputs) -> Part:
    """Return the part that scores policy versions, on its own engine or on the rollout engines."""
    environment = given.environment
    return Evaluator(
        given.context,
        source=_score_source(given, environment),
        tasks=environment.scored_tasks(),
        canaries=environment.canaries(),
        trained=TrainedTasks(given.context.reader, given.config.seed),
        instantiate=InstanceMaker(environment),
    )


def _score_source(given: PartInputs, environment: Environment) -> ScoreSource:
    context = given.context
    if given.engine is None:
        return RolloutScores(context, given.name)
    proven = VerifiedEngine(context, given.name, given.engine)
    return OwnScores(given.config, proven, environment.scorer(context, proven, given.simulators))
