"""Default methods of an environment: start here for an environment that is not a set of tools.

A subclass has ``name`` and ``config_type``, and adds ``texts``, ``conformance``, ``sampler``,
``scored_tasks``, ``describe``, ``simulator``, ``agents`` and ``scorer``;
`coevolve.environments.interface` explains each. With these defaults the loop makes no tasks (arm
``static``), the learner gets nothing but the rewards, and signals are about whole tasks.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from coevolve.environments.findings import Finding
from coevolve.environments.gate_rates import GateRates
from coevolve.environments.interface import Fault
from coevolve.environments.packages import Requirements
from coevolve.export.exporter import Exporter
from coevolve.history.annotated_source import AnnotatedSource
from coevolve.journal.codec import topics_of
from coevolve.models.architecture import ModelConfig
from coevolve.parts.context import PartContext
from coevolve.signals.detector import Detector, DetectorState
from coevolve.signals.extractor import Observer
from coevolve.signals.groups import CompleteGroup, summary_of
from coevolve.validation.gates import Gates, TaskIndex
from coevolve.validation.judge import Judge, NoJudge
from coevolve.validation.wordings import Wording
from protocols.capabilities import Capabilities
from protocols.config import RunConfig
from protocols.errors import ConfigError
from protocols.evolution import (
    Candidate,
    EnvironmentRecord,
    Gate,
    GroupSummary,
    PatternCount,
    Signal,
)
from protocols.generation import Grammar
from protocols.interfaces import ComputingPart, Reader, SimulatorService, Supervision
from protocols.journal import Message
from protocols.rollouts import Rollout
from protocols.synthesizers import EndpointModel
from protocols.tasks import Task


class BaseEnvironment:
    """A `coevolve.environments.interface.Environment` without tasks and attempts."""

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
    gate_order: ClassVar[Sequence[Gate]] = ()
    withheld: ClassVar[str] = ""
    commands: ClassVar[Mapping[str, str]] = {}
    evaluation: ClassVar[str] = ""

    def __init__(self, config: RunConfig) -> None:
        self._config = config

    def faults(self) -> Sequence[Fault]:
        """Return no rules."""
        return ()

    def check(self) -> Sequence[str]:
        """Find nothing missing."""
        return ()

    def endpoints(self) -> Mapping[str, EndpointModel]:
        """Return none."""
        return {}

    async def check_models(self) -> Sequence[str]:
        """Ask nobody: no endpoint makes or reads tasks."""
        return ()

    def make_model(self, folder: Path) -> None:
        """Do nothing: the run file names a model that exists."""
        return

    @property
    def imitates_others(self) -> bool:
        """Return False: the learner imitates only what the policy itself wrote."""
        return False

    def canaries(self) -> Sequence[Task]:
        """Return no tasks: the guard then has nothing to watch."""
        return ()

    async def instances(
        self, tasks: Sequence[Task], seed: int, simulators: Sequence[SimulatorService]
    ) -> Mapping[str, Task]:
        """Return none: each task is what it is."""
        return {}

    def unearned(self) -> Mapping[str, str]:
        """Return none: nothing was tried."""
        return {}

    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """Return no labels besides that of all tasks."""
        return {}

    def describe_candidate(self, candidate: Candidate) -> str:
        """Return the candidate's id."""
        return candidate.candidate_id

    async def sources(
        self, reader: Reader, visits: Iterable[GroupSummary]
    ) -> Sequence[AnnotatedSource]:
        """Return no sources."""
        return ()

    def observer(self, context: PartContext, simulators: Sequence[SimulatorService]) -> Observer:
        """Return an observer of the rewards of tasks."""
        return TaskObserver(self._config)

    def synthesizer(
        self, context: PartContext, simulators: Sequence[SimulatorService]
    ) -> ComputingPart:
        """Raise ConfigError: this environment makes no tasks."""
        raise self._no_synthesis()

    def gates(self, context: PartContext, simulators: Sequence[SimulatorService]) -> Gates:
        """Raise ConfigError: this environment makes no tasks."""
        raise self._no_synthesis()

    async def hostile(self, most: int) -> tuple[Finding, ...]:
        """Return nothing: there is no adversary's suite."""
        return ()

    async def gate_rates(self, *, most: int, planted: int, seed: int) -> GateRates:
        """Refuse: this environment does not measure its gates. Raises ConfigError."""
        raise self._no_gate_rates()

    def task_index(self) -> TaskIndex:
        """Raise ConfigError: this environment makes no tasks."""
        raise self._no_synthesis()

    def wordings(self, body: msgspec.Raw) -> Sequence[Wording]:
        """Return none."""
        return ()

    def judge(self, context: PartContext) -> Judge:
        """Return a judge without opinions."""
        return NoJudge()

    def supervision(self, reader: Reader) -> Supervision:
        """Return a supervision that adds nothing to the rewards."""
        return RewardsAlone()

    def _no_gate_rates(self) -> ConfigError:
        return ConfigError(
            f"environment.use: {self.name} does not measure its gates; environments with tools do, "
            "such as bfcl and filesystem"
        )

    def _no_synthesis(self) -> ConfigError:
        return ConfigError(
            f"$.arm: environment {self._config.uses} makes no tasks of its own, found arm "
            f"{self._config.arm}; choose static"
        )


class TaskObserver:
    """A `coevolve.signals.extractor.Observer` of the rewards of tasks.

    It is a `coevolve.journal.snapshots.Piece` as well, so no subclass may remember more.
    """

    topics = topics_of(GroupSummary, Signal)
    keeps = ()

    def __init__(self, config: RunConfig, tools: Sequence[str] = ()) -> None:
        """Start empty; a pattern in ``tools`` counts as rare until a rollout contains it."""
        self._detector = Detector(config.signals, tools, config.remembered_tasks)

    def patterns(self, rollouts: Sequence[Rollout]) -> tuple[PatternCount, ...]:
        """Return no patterns: this observer does not look into rollouts."""
        return ()

    @property
    def settings(self) -> object:
        """The settings on which the detector's state depends."""
        return self._detector.settings

    @property
    def state(self) -> DetectorState:
        """The detector's state."""
        return self._detector.state

    @state.setter
    def state(self, state: DetectorState) -> None:
        self._detector.state = state

    def recall(self, message: Message) -> None:
        """Add a group summary or a signal to the detector's history."""
        assert isinstance(message, GroupSummary | Signal)
        self._detector.recall(message)

    def signals(self, summary: GroupSummary) -> Sequence[Signal]:
        """Add a summary to the detector's history; return its signals."""
        return self._detector.judge(summary)

    async def judge(
        self, group: CompleteGroup
    ) -> tuple[GroupSummary, Sequence[Signal | EnvironmentRecord]]:
        """Return the group's summary and its signals; see `coevolve.signals.extractor.Observer`."""
        rollouts = [each for _, each in group.members if isinstance(each, Rollout)]
        summary = summary_of(
            group.members,
            root=group.members[0][1].task_id,
            calls=sum(len(rollout.actions) for rollout in rollouts),
            patterns=self.patterns(rollouts),
        )
        return summary, self.signals(summary)


class RewardsAlone:
    """A `protocols.interfaces.Supervision` that leaves the rewards unchanged."""

    def shape(self, rollouts: Sequence[Rollout]) -> tuple[float, ...]:
        """Return the rewards."""
        return tuple(rollout.reward for rollout in rollouts)

    def demonstration(self, task: Task) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return None: tasks have no references."""
        return None

    async def select(
        self, task: Task, group: int, rollouts: Sequence[Rollout]
    ) -> tuple[int, ...] | None:
        """Return None: the learner selects by the rewards."""
        return None

    async def grammar(self, task: Task) -> Grammar | None:
        """Return None: the policy's text is unconstrained."""
        return None
