"""The common part of all environments in which a policy calls tools.

A subclass provides the tasks and the names of the tool sets. Attempts are conversations
(`coevolve.environments.tools.agent`). New tasks come from exploration. A candidate is sound if its
calls can be executed and its instructions describe them (`coevolve.environments.tools.gates`).
"""

import importlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, ClassVar

import msgspec

from coevolve.base.dependencies import lacking
from coevolve.curriculum.task_sampler import TaskSampler, sampler_of
from coevolve.delivery.engine import VerifiedEngine
from coevolve.environments.findings import Finding
from coevolve.environments.interface import Environment
from coevolve.environments.rewards_only import RewardsAlone
from coevolve.environments.tools.adversary.probes import Grading
from coevolve.environments.tools.agent import ToolAgent
from coevolve.environments.tools.conversations import check_conversations
from coevolve.environments.tools.export.exporters import EXPORTERS
from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.gates.order import ORDER
from coevolve.environments.tools.gates.similarity import Leaks, Likenesses
from coevolve.environments.tools.interfaces import Renderer, ToolSource
from coevolve.environments.tools.observer import ReferenceSupervision, ToolObserver
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.task import ToolTask, read_body, tool_task
from coevolve.environments.tools.task_text import instructions_text, task_text
from coevolve.environments.tools.toolsets import tool_documents
from coevolve.environments.tools.vocabulary import Vocabulary
from coevolve.environments.tools.wire import ToolClient, ToolService
from coevolve.environments.tools.wordings import wordings_of
from coevolve.environments.tools.worker import ToolWorker
from coevolve.export.exporter import Exporter
from coevolve.models.model_files import has_chat_template
from coevolve.models.model_folder import model_folder, whole_model
from coevolve.parts.context import PartContext
from coevolve.rollouts.agent import Agent
from coevolve.rollouts.evaluator import AttemptScorer, Scorer
from coevolve.signals.extractor import Observer
from coevolve.synthesis.briefs import BriefContext
from coevolve.validation.gates import Gates, TaskIndex
from coevolve.validation.judge import Judge
from coevolve.validation.wordings import Wording
from protocols.capabilities import Capabilities
from protocols.errors import ConfigError
from protocols.evolution import Candidate, Gate
from protocols.interfaces import Generator, Reader, SimulatorService, Supervision
from protocols.rollouts import Writer
from protocols.synthesizers import EndpointModel, PolicyModel
from protocols.tasks import Task, TaskText

if TYPE_CHECKING:
    from coevolve.environments.tools.synthesis.questions import Questions
    from coevolve.synthesis.worker import SynthesizerWorker


ANSWERED_ERRORS = 3
"""Malformed calls of an attempt that are answered, where neither config nor benchmark decides."""


class ToolEnvironment(Environment):
    """A `coevolve.environments.interface.Environment` without tasks and tools."""

    swappable: ClassVar[bool] = True
    capabilities: ClassVar[Capabilities] = Capabilities(fresh_instances=True)
    exports: ClassVar[Mapping[str, Exporter]] = EXPORTERS
    gate_order: ClassVar[Sequence[Gate]] = ORDER
    attempt_gather_s: ClassVar[float] = 0.1
    """Seconds that an attempt's command waits for others, which then share one call of a worker."""

    ends_turns: ClassVar[bool] = False
    """Whether the benchmark's own loop goes on to the next turn after a malformed call."""

    @abstractmethod
    def source(self) -> ToolSource:
        """Return the source of seed tasks. Raises ConfigError."""

    @abstractmethod
    def kinds(self, task: Task) -> tuple[str, ...]:
        """Return the labels of a scored task besides its number of turns."""

    def check(self) -> Sequence[str]:
        """Return what the tools lack; refuse a model that does not fit them."""
        documents = (partial(tool_documents, name) for name in self.tool_sets())
        return lacking(*documents, self._check_policy)

    def _check_policy(self) -> None:
        config = self._config
        folder = whole_model(config.policy.model)
        if config.policy.tiny_random:
            self._check_own_synthesizer()
        elif folder is not None:
            chats = has_chat_template(folder)
            self.check_chat(chats=chats)
            if chats:
                self._check_own_synthesizer()
            self._check_conversations(references=self.capabilities.references)

    def _check_conversations(self, *, references: bool) -> None:
        """Refuse tasks whose conversations the policy cannot hold. Raises ConfigError."""
        renderer, source = self.renderer(), self.source()
        tasks = (*source.pool(), *self.canaries(), *source.held_out())
        imitation = self._config.learner.imitation
        check_conversations(
            renderer,
            tasks,
            self._config.rollout,
            references=references,
            imitated=imitation.weight > 0 or imitation.replay_per_step > 0,
        )

    def _check_own_synthesizer(self) -> None:
        """Refuse a chat model, tiny or not, that should make tasks. Raises ConfigError."""
        config = self._config
        if config.synthesizes and isinstance(config.synthesizer.model, PolicyModel):
            raise ConfigError(
                "synthesizer.model: kind policy works only with the tiny policy, but policy.model "
                f"is {config.policy.model!r}; use kind endpoint, or arm: static"
            )

    def check_chat(self, *, chats: bool) -> None:
        """Refuse a policy without a chat template. Raises ConfigError."""
        if not chats:
            raise ConfigError(
                f"environment.use: {self.name} needs a policy.model with a chat template, but "
                f"{self._config.policy.model!r} has none; choose another model"
            )

    def texts(self) -> Iterator[str]:
        """Yield the documentation of the tools, and instructions and calls of training tasks."""
        for name in self.tool_sets():
            for document in tool_documents(name):
                yield msgspec.json.encode(document).decode()
        for task in self.source().pool():
            for turn in tool_task(task).turns:
                yield turn.instruction
                yield from turn.reference

    def describe(self, task: Task) -> TaskText:
        """Return the user's instructions and the calls that solve the task."""
        return task_text(tool_task(task))

    def describe_candidate(self, candidate: Candidate) -> str:
        """Return the number of turns, and all instructions."""
        return instructions_text(read_body(candidate.body))

    def sampler(self) -> TaskSampler:
        """Return the sampler of the run's arm: it draws from the source or from the task pool."""
        return sampler_of(self._config, self.source())

    def scored_tasks(self) -> Sequence[Task]:
        """Return the held-out tasks."""
        return self.source().held_out()

    def canaries(self) -> Sequence[Task]:
        """Return tasks of the training split that no run trains on."""
        return self.source().canaries(self._config.learner.guard.tasks)

    async def instances(
        self, tasks: Sequence[Task], seed: int, simulators: Sequence[SimulatorService]
    ) -> Mapping[str, Task]:
        from coevolve.environments.tools.evolution import TRIALS_IN_BATCH
        from coevolve.environments.tools.instances import Instances

        pool = SimulatorPool(list(map(ToolClient, simulators)), TRIALS_IN_BATCH)
        return await Instances(pool, self._names, self._leaks).of(tasks, seed)

    @cached_property
    def _names(self) -> Vocabulary:
        return Vocabulary(map(tool_task, (*self.source().pool(), *self.canaries())))

    @cached_property
    def _shows_held_out(self) -> Leaks:
        return Leaks(self.scored_tasks())

    def _leaks(self, task: Task) -> bool:
        """Return whether training on the task would show a held-out request."""
        return task.split == "train" and self._shows_held_out(task)

    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """Return a label for the number of turns, and the kinds."""
        return {
            task.task_id: (
                "one turn" if len(tool_task(task).turns) == 1 else "several turns",
                *self.kinds(task),
            )
            for task in self.scored_tasks()
        }

    def tools(self) -> tuple[str, ...]:
        """Return the names of all tools that tasks offer."""
        source = self.source()
        bodies = (source.start(0), *map(tool_task, source.pool()))
        classes = dict.fromkeys(name for body in bodies for name in body.classes)
        return tuple(document.name for name in classes for document in tool_documents(name))

    @abstractmethod
    def tool_sets(self) -> tuple[str, ...]:
        """Return the names of the tool sets that simulators load."""

    def simulator(self) -> ToolService:
        """Return a simulator, whose sessions are in a child process."""
        return ToolService(ToolWorker(self._config.simulator, self.tool_sets()))

    def renderer(self) -> Renderer:
        """Return the renderer between text and the policy's tokens.

        Raises ConfigError if the model is neither the tiny policy nor a chat model.
        """
        folder = model_folder(self._config.policy.model)
        if not has_chat_template(folder):
            return TinyRenderer.load(folder)
        from coevolve.environments.tools.chat.renderer import ChatRenderer

        return ChatRenderer.load(
            folder,
            self._config.policy.chat,
            has_tools=any(map(tool_documents, self.tool_sets())),
            ends_turn=self.ends_turns and not self._answered_errors(),
        )

    def _answered_errors(self) -> int:
        """Return how many malformed calls of an attempt are answered."""
        most = self._config.policy.chat.answered_errors
        return (0 if self.ends_turns else ANSWERED_ERRORS) if most < 0 else most

    def agents(
        self,
        name: str,
        context: PartContext,
        engine: VerifiedEngine,
        simulators: Sequence[SimulatorService],
    ) -> Mapping[Writer, Agent]:
        """Return the policy's agent."""
        config = self._config
        return {
            "policy": self.agent(
                engine.generator, simulators, config.rollout.temperature, self.attempt_gather_s
            )
        }

    def scorer(
        self,
        context: PartContext,
        engine: VerifiedEngine,
        simulators: Sequence[SimulatorService],
    ) -> Scorer:
        """Return a scorer that makes one greedy attempt."""
        return AttemptScorer(self.agent(engine.generator, simulators, 0.0, self.attempt_gather_s))

    def agent(
        self,
        engine: Generator,
        simulators: Sequence[SimulatorService],
        temperature: float,
        gather_s: float,
        renderer: Renderer | None = None,
    ) -> Agent:
        """Return an agent that holds conversations with the tools, by default as the policy."""
        return ToolAgent(
            generator=engine,
            simulator=SimulatorPool(list(map(ToolClient, simulators)), gather_s=gather_s),
            renderer=renderer or self.renderer(),
            limits=self._config.rollout,
            temperature=temperature,
            answered_errors=self._answered_errors(),
        )

    def observer(self, reader: Reader, simulators: Sequence[SimulatorService]) -> Observer:
        """Return an observer of tools, their order, arguments and errors."""
        return ToolObserver(self._config, self.tools(), reader=reader, cells=self.cells())

    def synthesizer(
        self, context: PartContext, simulators: Sequence[SimulatorService]
    ) -> "SynthesizerWorker":
        """Return the part that explores and describes tasks."""
        from coevolve.environments.tools.evolution import synthesizer

        if isinstance(self._config.synthesizer.model, PolicyModel):
            # Imported before the part reports that it has started, so that the time counts as
            # start-up.
            importlib.import_module("coevolve.engine.generator")
        told, cells = self.brief_context(), self.cells()
        return synthesizer(context, told, cells, simulators, self.questions())

    def endpoints(self) -> Mapping[str, EndpointModel]:
        """Return the reader of instructions, if it is an endpoint of its own."""
        reader = self._config.validator.reader
        if not (self._config.synthesizes and isinstance(reader, EndpointModel)):
            return {}
        return {"validator.reader": reader}

    async def check_models(self) -> Sequence[str]:
        """Ask the endpoints of synthesizer and reader for a reflection on an example."""
        from coevolve.environments.tools.evolution import model_faults

        return await model_faults(self._config)

    def gates(self, context: PartContext, simulators: Sequence[SimulatorService]) -> Gates:
        from coevolve.environments.tools.evolution import gates

        return gates(context, simulators, self.held_out_cell)

    def held_out_cell(self, body: ToolTask) -> str:
        """Return what only held-out tasks may combine, if the task does; by default nothing."""
        del body
        return ""

    def task_index(self) -> TaskIndex:
        """Return an index that finds near-duplicates."""
        return Likenesses(self._config.validator.similarity)

    def wordings(self, body: msgspec.Raw) -> Sequence[Wording]:
        """Return the wording of each turn that calls tools."""
        return wordings_of(read_body(body))

    def judge(self, context: PartContext) -> Judge:
        """Return the synthesizer's model as a judge, if the config asks for its opinion."""
        from coevolve.environments.tools.evolution import judge

        return judge(context, self.questions())

    def questions(self) -> "Questions":
        """Return what a synthesizer's, reader's or judge's model is asked."""
        from coevolve.environments.tools.synthesis.questions import CALLS

        return CALLS

    def brief_context(self) -> BriefContext:
        """Return the source of what synthesizers learn about tools in their requests."""
        from coevolve.environments.tools.synthesis.context import ToolBriefs

        return ToolBriefs(self._config, source=self.source())

    def grading(self) -> Grading:
        """Return how the tools grade: by comparison with the reference."""
        return Grading(rewards=False, judges_words=False, certain=True, is_own=False)

    async def conformance(self, most: int) -> tuple[Finding, ...]:
        """Return the findings of checking tasks and tools in a simulator's own process."""
        from coevolve.environments.tools.conformance import conformance

        return await conformance(
            self.checked_source(),
            self.simulator(),
            self.tool_sets(),
            self.capabilities,
            self.grading(),
            most,
        )

    def checked_source(self) -> ToolSource:
        """Return the source of the tasks to check. Raises ConfigError."""
        return self.source()

    async def hostile(self, most: int) -> tuple[Finding, ...]:
        """Return the findings of hostile calls in a simulator's own process."""
        from coevolve.environments.tools.hostile import hostile_findings

        return await hostile_findings(
            self.checked_source(), self.simulator(), self.tool_sets(), self.capabilities, most
        )

    def supervision(self, reader: Reader) -> Supervision:
        """Return the references of tasks for imitation, if tasks have references."""
        if not self.capabilities.references:
            return RewardsAlone()
        return ReferenceSupervision(self.renderer())
