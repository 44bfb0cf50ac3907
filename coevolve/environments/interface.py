"""The interface of an environment: read this before adding one.

An environment is a domain in which a policy acts. It provides tasks, attempts at them and their
grades, summaries of finished groups, and the making and judging of new tasks. The loop calls
nothing else, and knows no environment by name: the field ``use`` of the section ``environment`` of
a run file names one (`coevolve.environments.registry`). Every process of a run builds its own
object, from the run file alone.

A subclass of `Environment` has ``name`` and ``config_type``, and implements the abstract methods.
With the defaults of the others the loop makes no tasks (arm ``static``), the learner gets nothing
but the rewards, and signals are about whole tasks.

To bring your own tools, write a plain class (`coevolve.environments.tools.simple`) instead of an
environment.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from coevolve.curriculum.task_sampler import TaskSampler
from coevolve.delivery.engine import VerifiedEngine
from coevolve.environments.findings import Finding
from coevolve.environments.packages import Requirements, Say
from coevolve.environments.rewards_only import RewardsAlone, TaskObserver
from coevolve.export.exporter import Exporter
from coevolve.history.annotated_source import AnnotatedSource
from coevolve.models.architecture import ModelConfig
from coevolve.parts.context import PartContext
from coevolve.rollouts.agent import Agent
from coevolve.rollouts.evaluator import Scorer
from coevolve.signals.extractor import Observer
from coevolve.validation.gates import Gates, TaskIndex
from coevolve.validation.judge import Judge, NoJudge
from coevolve.validation.wordings import Wording
from protocols.capabilities import Capabilities
from protocols.config import RunConfig
from protocols.errors import ConfigError
from protocols.evolution import Candidate, Gate, GroupSummary
from protocols.interfaces import ComputingPart, Reader, SimulatorService, Supervision
from protocols.rollouts import Writer
from protocols.synthesizers import EndpointModel
from protocols.tasks import Task, TaskText

Fault = tuple[bool, str]
"""Whether a rule is broken, and the message for that case: what is required, what was found, and
the remedy."""


class Environment(ABC):
    """A domain, as the loop uses it."""

    name: ClassVar[str]
    """Its name in run files and on the command line."""

    config_type: ClassVar[type[msgspec.Struct]]
    """The type of its settings: the section ``environment`` of a run file without ``use``."""

    requires: ClassVar[Requirements] = Requirements()
    """Packages of its own, and what else a machine must have (`coevolve.environments.packages`).
    The launcher installs the packages before it calls `check`."""

    patience_s: float = 90.0
    """Maximum seconds for an answer of a simulator; after that the simulator is replaced."""

    variables: tuple[str, ...] = ()
    """Environment variables that a local cluster's processes get, as in ``cluster.variables``."""

    def __init__(self, config: RunConfig) -> None:
        """Read the settings; load nothing that only some parts need."""
        self._config = config

    # The run file.

    def faults(self) -> Sequence[Fault]:
        """Return the rules that the environment adds to those of the run file."""
        return ()

    def install(self, say: Say) -> None:
        """Install what the settings name, besides `requires`; it is called before `check`.

        Raises DependencyError.
        """
        del say

    def check(self) -> Sequence[str]:
        """Return what the machine lacks for it: packages, programs and models.

        Each is a sentence with its remedy. A dry run also calls this, so a check is skipped if it
        depends on something missing, such as the weights of ``policy.model``. Raises ConfigError
        for mistakes in the run file.
        """
        return ()

    def endpoints(self) -> Mapping[str, EndpointModel]:
        """Return the endpoints that a run asks besides its synthesizer's, by their settings."""
        return {}

    async def check_models(self) -> Sequence[str]:
        """Ask each endpoint that makes or reads tasks an example; return why some are of no use.

        Each is a sentence with its remedy.
        """
        return ()

    def make_model(self, folder: Path) -> None:
        """Write the initial model to ``folder``, if the run makes it itself."""
        return

    def task_file(self) -> bytes:
        """Return the content of a file of tasks that a run keeps; empty if there is none.

        Raises ConfigError.
        """
        return b""

    def ask_tasks(self) -> bytes:
        """Return the lines of a file of tasks, as a program of the user's gives them.

        Raises ConfigError if there is no such program, or if it gives no tasks.
        """
        raise ConfigError(f"environment {self.name}: needs no file of tasks from a program")

    @abstractmethod
    def texts(self) -> Iterable[str]:
        """Yield texts like those of attempts, from the training split only.

        They train the tokenizer of a tiny random model.
        """

    @property
    def imitates_others(self) -> bool:
        """Whether a run imitates texts that someone other than the policy wrote."""
        return False

    capabilities: ClassVar[Capabilities] = Capabilities(
        replayable=False, state_digest=False, references=False
    )
    """What the loop may do; status and report name the absent capabilities."""

    swappable: ClassVar[bool] = False
    """Whether tasks are synthesized by a model that can be replaced while the run goes on."""

    own_models: ClassVar[Mapping[str, ModelConfig]] = {}
    """The models that `make_model` makes: name in ``policy.model`` -> its `config.json`."""

    exports: ClassVar[Mapping[str, Exporter]] = {}
    """The tables that `coevolve export` can write for a run, by name."""

    gate_order: ClassVar[Sequence[Gate]] = ()
    """The names of its gates in the order in which they are checked; empty if they have none."""

    withheld: ClassVar[str] = ""
    """Why `coevolve export` writes no other tables, as a sentence; empty if nothing forbids it."""

    commands: ClassVar[Mapping[str, str]] = {}
    """Its own commands, ``coevolve NAME COMMAND``: name -> ``module:attribute`` of a click command,
    which is imported only when it is used."""

    evaluation: ClassVar[str] = ""
    """``module:attribute`` of a `coevolve.environments.evaluation.OwnEvaluation`, for an
    environment with a name; `coevolve evaluate` then follows it. Empty: the command scores policies
    with `scorer` on `scored_tasks`."""

    @abstractmethod
    async def conformance(self, most: int) -> tuple[Finding, ...]:
        """Return the findings of checking that the environment keeps what it declares.

        The checks use at most ``most`` tasks of each split. The one named
        `coevolve.environments.findings.EARNED` makes attempts that do not do what a task asks:
        silence, an echo, the work of another task. Without it, `check` says that nobody tried.
        Raises ConfigError and DependencyError.
        """

    async def hostile(self, most: int) -> tuple[Finding, ...]:
        """Return the findings of an adversary's suite: replies of a policy, and tasks.

        It uses at most ``most`` tasks. Empty if the environment has no such suite.
        """
        return ()

    # Tasks.

    @abstractmethod
    def sampler(self) -> TaskSampler:
        """Return a new task sampler, into which nothing has been folded."""

    @abstractmethod
    def scored_tasks(self) -> Sequence[Task]:
        """Return the tasks that policy versions are scored on."""

    def canaries(self) -> Sequence[Task]:
        """Return the tasks that the guard watches, and that choose the best version.

        If possible they are not trained on; none of them is held out.
        """
        return ()

    async def instances(
        self, tasks: Sequence[Task], seed: int, simulators: Sequence[SimulatorService]
    ) -> Mapping[str, Task]:
        """Return a further instance of each task, by the task's id: the same work, other names.

        ``seed`` (at least 0) determines the instances. Tasks that have none are left out. Raises
        SimulatorError.
        """
        return {}

    def unearned(self) -> Mapping[str, str]:
        """Return, by task id, how an attempt solves a given task without doing what it asks.

        These tasks need not be among those that the run uses.
        """
        return {}

    def cells(self) -> Mapping[str, str]:
        """Return the names of what tasks may practise, each with the scored task that measures it.

        Arms ``coverage`` and ``oracle`` and the rules ``skills`` choose among them; none if the
        environment has no cells.
        """
        return {}

    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """Return, by task id, the labels under which a scored task's result is also reported."""
        return {}

    @abstractmethod
    def describe(self, task: Task) -> TaskText:
        """Return a description of the task in words."""

    def describe_candidate(self, candidate: Candidate) -> str:
        """Return a short description of a candidate, for example ``2 turns``."""
        return candidate.candidate_id

    async def sources(
        self, reader: Reader, visits: Iterable[GroupSummary]
    ) -> Sequence[AnnotatedSource]:
        """Return its sources with what the rollouts of ``visits`` reached in them, for the report.

        ``visits`` are in the order of their numbers; ``reader`` has the environment's records.
        """
        return ()

    # Attempts.

    @abstractmethod
    def simulator(self) -> SimulatorService:
        """Return one member of the simulator pool; it runs in its own process."""

    @abstractmethod
    def agents(
        self,
        name: str,
        context: PartContext,
        engine: VerifiedEngine,
        simulators: Sequence[SimulatorService],
    ) -> Mapping[Writer, Agent]:
        """Return the agents that attempt tasks in the part ``name``, by writer."""

    @abstractmethod
    def scorer(
        self, context: PartContext, engine: VerifiedEngine, simulators: Sequence[SimulatorService]
    ) -> Scorer:
        """Return a scorer of the policy that ``engine`` serves."""

    # Evolution.

    def observer(self, reader: Reader, simulators: Sequence[SimulatorService]) -> Observer:
        """Return a new observer, which summarizes groups and finds weaknesses."""
        return TaskObserver(self._config)

    def synthesizer(
        self, context: PartContext, simulators: Sequence[SimulatorService]
    ) -> ComputingPart:
        """Return the part that makes tasks from signals."""
        raise self._no_synthesis()

    def gates(self, context: PartContext, simulators: Sequence[SimulatorService]) -> Gates:
        """Return the gates that decide whether a candidate is sound."""
        raise self._no_synthesis()

    def task_index(self) -> TaskIndex:
        """Return a new, empty index that finds similar tasks."""
        raise self._no_synthesis()

    def wordings(self, body: msgspec.Raw) -> Sequence[Wording]:
        """Return the wordings of a sound task's instructions; none if it has no instructions."""
        return ()

    def judge(self, context: PartContext) -> Judge:
        """Return the judge of candidates. Its opinions are recorded and decide nothing."""
        return NoJudge()

    # Learning.

    def supervision(self, reader: Reader) -> Supervision:
        """Return what the learner gets besides rewards."""
        return RewardsAlone()

    def _no_synthesis(self) -> ConfigError:
        return ConfigError(
            f"$.arm: environment {self._config.uses} makes no tasks of its own, found arm "
            f"{self._config.arm}; choose static"
        )
