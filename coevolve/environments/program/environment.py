"""The environment ``program``: an agent program of the user's own, and a file of its tasks.

The program talks to the policy as to an OpenAI endpoint (`coevolve.gateway`), does with the
answers what it likes, and gives the reward (`coevolve.environments.program.worker`).
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

import msgspec

from coevolve.environments.program.settings import ProgramConfig
from coevolve.environments.program.tasks import (
    TaskFile,
    checked_lines,
    headline,
    line_of,
    printed_tasks,
    read_tasks,
    task_content,
)
from coevolve.environments.program.worker import Programs
from coevolve.environments.sdk import (
    Agent,
    AttemptScorer,
    Environment,
    Fault,
    Finding,
    PartContext,
    Scorer,
    SourceSampler,
    TaskSampler,
    VerifiedEngine,
    has_chat_template,
    lacking,
    settings_of,
    shown,
    whole_model,
)
from protocols.capabilities import Capabilities
from protocols.config import PolicyConfig, RunConfig
from protocols.errors import CoevolveError, ConfigError, DependencyError
from protocols.interfaces import Generator, SimulatorService
from protocols.rollouts import Writer
from protocols.tasks import Task, TaskText

if TYPE_CHECKING:
    from coevolve.environments.sdk import Sampling

ANSWER_S = 30.0
"""Seconds that an answer may take beyond the program's own."""


class ProgramEnvironment(Environment):
    """An agent program of your own, with its own loop, as an OpenAI client of the policy."""

    name: ClassVar[str] = "program"
    config_type: ClassVar[type[msgspec.Struct]] = ProgramConfig
    capabilities: ClassVar[Capabilities] = Capabilities(
        replayable=False, state_digest=False, references=False
    )

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._settings = settings_of(config, ProgramConfig)
        self.patience_s = self._settings.patience_s + ANSWER_S
        self.variables = self._settings.variables

    def faults(self) -> Sequence[Fault]:
        """Return the rule that nobody makes tasks of which only the program knows the form."""
        fault = f"$.arm: {self.name} makes no tasks of its own; choose static"
        own = self._settings.own_python()
        loose = ", ".join(map(shown, own.unpinned)) if own else ""
        pins = f"$.environment.python: needs packages such as name==1.2, found {loose}"
        return ((self._config.synthesizes, fault), (bool(loose), f"{pins}; add their versions"))

    def install(self, say: Callable[[str], None]) -> None:
        """Install the packages of the program's own Python environment. Raises DependencyError."""
        if own := self._settings.own_python():
            own.make(say)

    def check(self) -> Sequence[str]:
        """Return what program and tasks lack; refuse a model without a chat template."""
        return lacking(self._check_command, self._check_policy, self.source)

    def _check_command(self) -> None:
        own = self._settings.own_python()
        if own and not own.is_made:
            raise DependencyError(
                f"environment.python: needs {', '.join(own.packages)}, found no "
                f"{own.interpreter}; run `coevolve setup FILE` with the run file FILE"
            )
        argv = self._settings.argv()
        path = self._settings.path(os.environ.get("PATH", os.defpath))
        files = [each for each in argv[:2] if each.endswith(".py")]
        starter = "python" if argv[0] == self._settings.interpreter() else "command"
        for setting, found, is_there in (
            *(("command", each, Path(each).is_file()) for each in files),
            (starter, argv[0], shutil.which(argv[0], path=path) is not None),
        ):
            if not is_there:
                raise ConfigError(
                    f"environment.{setting}: needs programs that exist, found none at "
                    f"{shown(found)} in {Path.cwd()}; give the path"
                )

    def _check_policy(self) -> None:
        config = self._config
        folder = None if config.policy.tiny_random else whole_model(config.policy.model)
        if folder is not None and not has_chat_template(folder):
            raise ConfigError(
                f"environment.use: {self.name} needs a policy.model with a chat template, but "
                f"{config.policy.model!r} has none; choose another model"
            )

    def task_file(self) -> bytes:
        """Return the content of the file of tasks. Raises ConfigError."""
        return task_content(self._settings)

    def ask_tasks(self) -> bytes:
        """Return the tasks that the program prints. Raises ConfigError."""
        self._check_command()
        return checked_lines(printed_tasks(self._settings))

    def source(self) -> TaskFile:
        """Return the tasks. Raises ConfigError."""
        return self._source

    @cached_property
    def _source(self) -> TaskFile:
        return read_tasks(self._settings, self._config)

    def texts(self) -> Iterator[str]:
        """Yield the lines of training tasks."""
        for task in self.source().pool():
            yield msgspec.json.encode(line_of(task)).decode()

    def sampler(self) -> TaskSampler:
        return SourceSampler(self.source())

    def scored_tasks(self) -> Sequence[Task]:
        return self.source().held_out()

    def canaries(self) -> Sequence[Task]:
        return self.source().canaries(self._config.learner.guard.tasks)

    def describe(self, task: Task) -> TaskText:
        return TaskText(headline=headline(line_of(task)))

    def simulator(self) -> Programs:
        """Return the program, which makes any number of attempts at once."""
        return Programs(self._settings)

    def agents(
        self,
        name: str,
        context: PartContext,
        engine: VerifiedEngine,
        simulators: Sequence[SimulatorService],
    ) -> Mapping[Writer, Agent]:
        """Return the policy's agent."""
        return {"policy": self._agent(engine, simulators, self._config.rollout.temperature)}

    def scorer(
        self, context: PartContext, engine: VerifiedEngine, simulators: Sequence[SimulatorService]
    ) -> Scorer:
        """Return a scorer that makes one greedy attempt."""
        return AttemptScorer(self._agent(engine, simulators, 0.0))

    def _agent(
        self, engine: VerifiedEngine, simulators: Sequence[SimulatorService], temperature: float
    ) -> Agent:
        from coevolve.environments.program.agent import ProgramAgent

        sampling = self._sampling(engine.generator, temperature)
        return ProgramAgent(self._settings, sampling, simulators)

    def _sampling(self, generator: Generator, temperature: float) -> "Sampling":
        from coevolve.environments.sdk import Sampling, with_tools

        sampling = Sampling.load(self._config, generator, temperature)
        return with_tools(sampling, self._config.policy.chat)

    async def conformance(self, most: int) -> tuple[Finding, ...]:
        """Return the findings of letting the program attempt tasks with policies of no skill."""
        from coevolve.environments.program.conformance import conformance

        source, has_tools = self.source(), self._takes_tools()
        return await conformance(
            self._settings, source, self.capabilities, most, has_tools=has_tools
        )

    def _takes_tools(self) -> bool:
        """Return whether the model takes tools; True if none is named, or it cannot be read."""
        if self._config.policy == PolicyConfig():
            return True
        with suppress(CoevolveError):
            unused = cast("Generator", None)
            return self._sampling(unused, 1.0).read_calls is not None
        return True

    async def hostile(self, most: int) -> tuple[Finding, ...]:
        """Return whether the program is told what tasks have as their answers."""
        from coevolve.environments.program.conformance import answers_shown

        tasks = (*self.source().pool()[:most], *self.source().held_out()[:most])
        return (answers_shown(self._settings, tasks),)
