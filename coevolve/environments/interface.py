"""What an environment is: read this before adding one.

An environment is a domain that a policy acts in, as the loop sees it: where tasks come from, how an
attempt at one goes and is graded, what a finished group says, how new tasks are made and judged.
The loop calls nothing else of it, and knows no environment by name: the ``use`` of a run file's
section ``environment`` names one (`coevolve.environments.registry`). Every process of a run builds
its own object, from the run file alone.

To bring tools of your own, write a plain class (`coevolve.environments.tools.simple`) and no class
of this kind.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

import msgspec

from coevolve.curriculum.task_sampler import TaskSampler
from coevolve.delivery.engine import VerifiedEngine
from coevolve.environments.findings import Finding
from coevolve.environments.packages import Requirements
from coevolve.export.exporter import Exporter
from coevolve.models.architecture import ModelConfig
from coevolve.parts.context import PartContext
from coevolve.rollouts.agent import Agent
from coevolve.rollouts.evaluator import Scorer
from coevolve.signals.extractor import Observer
from coevolve.validation.gates import Gates, TaskIndex
from coevolve.validation.judge import Judge
from protocols.capabilities import Capabilities
from protocols.config import RunConfig
from protocols.evolution import Candidate
from protocols.interfaces import ComputingPart, Reader, SimulatorService, Supervision
from protocols.rollouts import Writer
from protocols.tasks import Task, TaskText

Fault = tuple[bool, str]
"""Whether a rule is broken, and the message that says so: what is needed, what was found, and the
remedy."""


class Environment(Protocol):
    """A domain as the loop sees it."""

    name: ClassVar[str]
    """How a run file and a user call it."""

    config_type: ClassVar[type[msgspec.Struct]]
    """Its settings in the run file: the section ``environment`` without ``use``."""

    requires: ClassVar[Requirements]
    """Packages of its own, and what else a machine must have (`coevolve.environments.packages`).
    The launcher installs the packages before it calls `check`."""

    patience_s: ClassVar[float]
    """Longest time that a simulator may take for an answer; beyond it the simulator is lost."""

    def __init__(self, config: RunConfig) -> None:
        """Read the settings; load nothing that only some parts need."""
        ...

    # The run file.

    def faults(self) -> Sequence[Fault]:
        """Return the rules between settings that the environment adds."""
        ...

    def check(self) -> None:
        """Make sure that packages, programs and models are there, before anything is written.

        Raises ConfigError and DependencyError.
        """
        ...

    def make_model(self, folder: Path) -> None:
        """Write the model that the run starts from into ``folder``, if the run makes it itself."""
        ...

    def texts(self) -> Iterable[str]:
        """Yield what attempts are made of, of the training split alone.

        The tokenizer of a tiny random model is made from it.
        """
        ...

    @property
    def imitates_others(self) -> bool:
        """Whether a run imitates what somebody else than the policy writes."""
        ...

    capabilities: ClassVar[Capabilities]
    """What the loop may do; what is absent is said in status and report."""

    swappable: ClassVar[bool]
    """Whether a model synthesizes, which can be swapped for another while the run goes on."""

    own_models: ClassVar[Mapping[str, ModelConfig]]
    """The models that `make_model` makes: what ``policy.model`` calls them -> `config.json`."""

    exports: ClassVar[Mapping[str, Exporter]]
    """The tables that `coevolve.export` can write of a run, by name."""

    async def conformance(self, most: int) -> tuple[Finding, ...]:
        """Return what came of checking that the environment keeps what it declares.

        Measured on at most ``most`` tasks of each split. Raises ConfigError and DependencyError.
        """
        ...

    # Tasks.

    def sampler(self) -> TaskSampler:
        """Return what draws the tasks of groups; nothing is folded into it yet."""
        ...

    def scored_tasks(self) -> Sequence[Task]:
        """Return the tasks that policy versions are scored on."""
        ...

    def canaries(self) -> Sequence[Task]:
        """Return the tasks that the guard watches: neither trained on nor reported, if possible."""
        ...

    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """Return the groups that the score of each scored task is reported under, by task id."""
        ...

    def describe(self, task: Task) -> TaskText:
        """Return the task in words."""
        ...

    def describe_candidate(self, candidate: Candidate) -> str:
        """Return in a few words what a candidate would be, for example ``2 turns``."""
        ...

    # Attempts.

    def simulator(self) -> SimulatorService:
        """Return one member of the simulator pool, for a process of its own."""
        ...

    def agents(
        self,
        name: str,
        context: PartContext,
        engine: VerifiedEngine,
        simulators: Sequence[SimulatorService],
    ) -> Mapping[Writer, Agent]:
        """Return who attempts tasks in the part ``name``, by who writes."""
        ...

    def scorer(
        self, context: PartContext, engine: VerifiedEngine, simulators: Sequence[SimulatorService]
    ) -> Scorer:
        """Return what scores the policy that ``engine`` serves."""
        ...

    # Evolution.

    def observer(self, context: PartContext, simulators: Sequence[SimulatorService]) -> Observer:
        """Return what sums up groups and finds weaknesses; it remembers nothing yet."""
        ...

    def synthesizer(
        self, context: PartContext, simulators: Sequence[SimulatorService]
    ) -> ComputingPart:
        """Return the part that makes tasks out of signals."""
        ...

    def gates(self, context: PartContext, simulators: Sequence[SimulatorService]) -> Gates:
        """Return what says whether a candidate is sound."""
        ...

    def task_index(self) -> TaskIndex:
        """Return what finds tasks that are much alike; there are none in it yet."""
        ...

    def judge(self, context: PartContext) -> Judge:
        """Return who is asked for an opinion on candidates, which is recorded and decides nothing.

        `coevolve.validation.judge.NoJudge` has none.
        """
        ...

    # Learning.

    def supervision(self, reader: Reader) -> Supervision:
        """Return what the learner is told beyond rewards."""
        ...
