"""What an environment need not say itself: begin here for one that is no set of tools.

A subclass has ``name`` and ``config_type``, and adds ``texts``, ``conformance``, ``sampler``,
``scored_tasks``, ``describe``, ``simulator``, ``agents`` and ``scorer``; each is explained in
`coevolve.environments.interface`. As it is, tasks are given (arm ``static``), the rewards of
rollouts are all that the learner is told, and signals are about whole tasks.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from coevolve.environments.interface import Fault
from coevolve.environments.packages import Requirements
from coevolve.export.exporter import Exporter
from coevolve.models.architecture import ModelConfig
from coevolve.parts.context import PartContext
from coevolve.signals.detector import Detector
from coevolve.signals.extractor import Observer
from coevolve.signals.groups import CompleteGroup, summary_of
from coevolve.validation.gates import Gates, TaskIndex
from coevolve.validation.judge import Judge, NoJudge
from protocols.capabilities import Capabilities
from protocols.config import RunConfig
from protocols.errors import ConfigError
from protocols.evolution import Candidate, GroupSummary, PatternCount, Signal
from protocols.generation import Grammar
from protocols.interfaces import ComputingPart, Reader, SimulatorService, Supervision
from protocols.journal import Message
from protocols.rollouts import Rollout
from protocols.tasks import Task


class BaseEnvironment:
    """A `coevolve.environments.interface.Environment`, but for its tasks and attempts."""

    name: ClassVar[str]
    config_type: ClassVar[type[msgspec.Struct]]
    requires: ClassVar[Requirements] = Requirements()
    patience_s: ClassVar[float] = 90.0
    swappable: ClassVar[bool] = False
    capabilities: ClassVar[Capabilities] = Capabilities(
        replayable=False, state_digest=False, references=False
    )
    own_models: ClassVar[Mapping[str, ModelConfig]] = {}
    exports: ClassVar[Mapping[str, Exporter]] = {}

    def __init__(self, config: RunConfig) -> None:
        self._config = config

    def faults(self) -> Sequence[Fault]:
        """Return no rule of its own."""
        return ()

    def check(self) -> None:
        """Find nothing missing."""
        return

    def make_model(self, folder: Path) -> None:
        """Write nothing: the model is given."""
        return

    @property
    def imitates_others(self) -> bool:
        """Return False: what is trained on is the policy's own."""
        return False

    def canaries(self) -> Sequence[Task]:
        """Return none: the guard watches the tasks that are scored."""
        return ()

    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """Return no group but that of all."""
        return {}

    def describe_candidate(self, candidate: Candidate) -> str:
        """Return its id."""
        return candidate.candidate_id

    def observer(self, context: PartContext, simulators: Sequence[SimulatorService]) -> Observer:
        """Return what looks at the successes of tasks."""
        return TaskObserver(self._config)

    def synthesizer(
        self, context: PartContext, simulators: Sequence[SimulatorService]
    ) -> ComputingPart:
        """Refuse: tasks are given. Raises ConfigError."""
        raise self._given()

    def gates(self, context: PartContext, simulators: Sequence[SimulatorService]) -> Gates:
        """Refuse: tasks are given. Raises ConfigError."""
        raise self._given()

    def task_index(self) -> TaskIndex:
        """Refuse: tasks are given. Raises ConfigError."""
        raise self._given()

    def judge(self, context: PartContext) -> Judge:
        """Return nobody."""
        return NoJudge()

    def supervision(self, reader: Reader) -> Supervision:
        """Return what adds nothing to rewards."""
        return RewardsAlone()

    def _given(self) -> ConfigError:
        return ConfigError(
            f"$.arm: environment {self._config.uses} makes no tasks of its own, found arm "
            f"{self._config.arm}; choose static"
        )


class TaskObserver:
    """A `coevolve.signals.extractor.Observer` of how tasks go."""

    topics = ("group_summary", "signal")

    def __init__(self, config: RunConfig, tools: Sequence[str] = ()) -> None:
        """Remember nothing; ``tools`` are patterns that count as rare until they are seen."""
        self._detector = Detector(config.signals, tools)

    def patterns(self, rollouts: Sequence[Rollout]) -> tuple[PatternCount, ...]:
        """Return none: what is done in a rollout says nothing."""
        return ()

    def recall(self, message: Message) -> None:
        """Take in a summary or a signal."""
        assert isinstance(message, GroupSummary | Signal)
        self._detector.recall(message)

    async def judge(self, group: CompleteGroup) -> tuple[GroupSummary, Sequence[Signal]]:
        """Sum up the group and ask the rules; see `coevolve.signals.extractor.Observer`."""
        rollouts = [each for _, each in group.members if isinstance(each, Rollout)]
        summary = summary_of(
            group.members,
            root=group.members[0][1].task_id,
            calls=sum(len(rollout.actions) for rollout in rollouts),
            patterns=self.patterns(rollouts),
        )
        return summary, self._detector.judge(summary)


class RewardsAlone:
    """A `protocols.interfaces.Supervision` that leaves rewards as they are."""

    def shape(self, rollouts: Sequence[Rollout]) -> tuple[float, ...]:
        """Return the rewards."""
        return tuple(rollout.reward for rollout in rollouts)

    def demonstration(self, task: Task) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return None: there are no references."""
        return None

    async def select(
        self, task: Task, group: int, rollouts: Sequence[Rollout]
    ) -> tuple[int, ...] | None:
        """Return None: the rewards choose."""
        return None

    async def grammar(self, task: Task) -> Grammar | None:
        """Return None: the policy writes freely."""
        return None
