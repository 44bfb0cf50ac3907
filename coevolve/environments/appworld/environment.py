"""The environment ``appworld``: tasks in AppWorld's nine apps, carried out by Python code.

The apps run in processes of AppWorld's own engine, which hold databases, ground truth and
evaluator. The policy's code runs in other processes, which can do nothing but compute and call
public APIs. `coevolve.environments.appworld.worker` has both.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec

from coevolve.environments.appworld.blocks import apis_in
from coevolve.environments.appworld.documents import ApiDocuments
from coevolve.environments.appworld.gates.likeness import code_likeness
from coevolve.environments.appworld.gates.order import ORDER
from coevolve.environments.appworld.instances import names_in_code, with_names
from coevolve.environments.appworld.own import instance_id
from coevolve.environments.appworld.patterns import count_apis
from coevolve.environments.appworld.place import NAME, NOTICE, REQUIRES
from coevolve.environments.appworld.prompt import opening_text, output_text
from coevolve.environments.appworld.settings import AppWorldConfig
from coevolve.environments.appworld.source import (
    SET,
    SILENT,
    AppWorldSource,
    Extra,
    data_folder,
    difficulty_of,
    open_source,
    own_tasks,
)
from coevolve.environments.appworld.worker import AppWorldWorker
from coevolve.environments.rewards_only import RewardsAlone
from coevolve.environments.sdk import (
    Exporter,
    Fault,
    Finding,
    PartContext,
    Requirements,
    lacking,
    model_folder,
    settings_of,
)
from coevolve.environments.tools.environment import ToolEnvironment
from coevolve.environments.tools.gates.similarity import Leaks, Likenesses
from coevolve.environments.tools.instances import Instances
from coevolve.environments.tools.interfaces import Renderer
from coevolve.environments.tools.observer import ToolObserver
from coevolve.environments.tools.task import tool_task
from coevolve.environments.tools.task_text import task_text
from coevolve.environments.tools.vocabulary import Vocabulary
from coevolve.environments.tools.wire import ToolService
from coevolve.signals.extractor import Observer
from coevolve.synthesis.briefs import BriefContext
from coevolve.validation.gates import Gates, TaskIndex
from coevolve.validation.wordings import Wording
from protocols.config import RunConfig
from protocols.evolution import Gate
from protocols.interfaces import Reader, SimulatorService, Supervision
from protocols.synthesizers import PolicyModel
from protocols.tasks import Seeded, Synthesized, Task, TaskText

if TYPE_CHECKING:
    from coevolve.environments.tools.synthesis.questions import Questions

BLOCK_MARGIN_S = 30.0


class AppWorld(ToolEnvironment):
    """Tasks in AppWorld's apps, carried out by blocks of Python code."""

    name: ClassVar[str] = NAME
    config_type: ClassVar[type[msgspec.Struct]] = AppWorldConfig
    requires: ClassVar[Requirements] = REQUIRES
    patience_s: float = 300.0
    attempt_gather_s: ClassVar[float] = 0.02
    exports: ClassVar[Mapping[str, Exporter]] = {}
    gate_order: ClassVar[Sequence[Gate]] = ORDER
    withheld: ClassVar[str] = NOTICE

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._settings = settings_of(config, AppWorldConfig)

    def faults(self) -> Sequence[Fault]:
        """Return the rules on sources, and on what a simulator can hold."""
        config, settings = self._config, self._settings
        longest_s = 2 * config.simulator.timeout_s + BLOCK_MARGIN_S
        return (
            (
                settings.source == "official" and not settings.data,
                "$.environment.data: source official needs the folder that `appworld download "
                "data` made; give its path",
            ),
            (
                longest_s > self.patience_s,
                "$.simulator.timeout_s: a block of code may take "
                f"{(self.patience_s - BLOCK_MARGIN_S) / 2:g} s at most, found "
                f"{config.simulator.timeout_s:g}; lower it",
            ),
            (
                config.synthesizes and isinstance(config.synthesizer.model, PolicyModel),
                "$.synthesizer.model: kind policy cannot write code for apps; use kind endpoint, "
                "or arm static",
            ),
        )

    def check(self) -> Sequence[str]:
        """Return what the tasks lack; refuse a model without a chat template."""
        return lacking(self._check_policy, self.source)

    def texts(self) -> Iterator[str]:
        """Yield openings, blocks and outputs of training tasks, and the documents of the APIs."""
        yield from self._documents.texts()
        for task in self.source().pool():
            body = tool_task(task)
            yield opening_text(msgspec.json.decode(body.extra, type=Extra), "")
            yield body.turns[0].instruction
            yield from body.turns[0].reference
            yield output_text(SILENT)

    def source(self) -> AppWorldSource:
        """Return the tasks. Raises ConfigError, DependencyError and SimulatorError."""
        return self._source

    @cached_property
    def _source(self) -> AppWorldSource:
        return open_source(self._config, self._settings)

    @cached_property
    def _documents(self) -> ApiDocuments:
        return ApiDocuments.read(data_folder(self._settings))

    def tools(self) -> tuple[str, ...]:
        return self._documents.names

    def tool_sets(self) -> tuple[str, ...]:
        """Return the one name under which tasks have the apps."""
        return (SET,)

    def kinds(self, task: Task) -> tuple[str, ...]:
        """Return the apps that a task's reference uses; the set of an official task."""
        if isinstance(task.origin, Seeded) and task.origin.source.startswith("official:"):
            return (task.origin.source.partition(":")[2],)
        return tuple(sorted({skill.partition(".")[0] for skill in task.skills}))

    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """Return the kinds of each task, and its difficulty: every task has one turn."""
        data = data_folder(self._settings)
        return {
            task.task_id: (*self.kinds(task), f"difficulty {difficulty_of(data, task.task_id)}")
            for task in self.scored_tasks()
        }

    async def instances(
        self, tasks: Sequence[Task], seed: int, simulators: Sequence[SimulatorService]
    ) -> Mapping[str, Task]:
        """Return further draws from the templates of own tasks, and made tasks with other names.

        Official tasks have none.
        """
        made = [task for task in tasks if isinstance(task.origin, Synthesized)]
        found = await self._drawn([task for task in tasks if task not in made], seed)
        if made:
            from coevolve.environments.tools.evolution import trial_pool

            names = Vocabulary(map(tool_task, self.source().pool()), names_in_code)
            instances = Instances(
                trial_pool(simulators), names, self._leaks, of=names_in_code, put=with_names
            )
            found |= await instances.of(made, seed)
        return found

    async def _drawn(self, tasks: Sequence[Task], seed: int) -> dict[str, Task]:
        if self._settings.source != "own" or not tasks:
            return {}
        data, memory_mb = data_folder(self._settings), self._settings.engine_memory_mb
        drawn = {task.task_id: instance_id(task.task_id, seed) for task in tasks}
        made = await asyncio.to_thread(own_tasks, data, tuple(drawn.values()), "train", memory_mb)
        return {
            task.task_id: msgspec.structs.replace(each, split=task.split)
            for task, each in zip(tasks, made, strict=True)
        }

    @cached_property
    def _shows_held_out(self) -> Leaks:
        return Leaks(self.scored_tasks(), features=code_likeness)

    def describe(self, task: Task) -> TaskText:
        return msgspec.structs.replace(task_text(tool_task(task)), tools=task.skills, skills=())

    def simulator(self) -> ToolService:
        """Return a simulator, whose worlds and interpreters are processes of their own."""
        return ToolService(AppWorldWorker(self._settings, self._config.simulator, self._data))

    def _data(self) -> Path:
        return data_folder(self._settings)

    def renderer(self) -> Renderer:
        from coevolve.environments.appworld.renderer import CodeRenderer

        return CodeRenderer.load(model_folder(self._config.policy.model), self._config.policy.chat)

    def observer(self, reader: Reader, simulators: Sequence[SimulatorService]) -> Observer:
        """Return an observer of the APIs that blocks name, their order and their errors."""
        return ToolObserver(self._config, self.tools(), count=count_apis)

    def questions(self) -> "Questions":
        from coevolve.environments.appworld.synthesis.questions import code_questions

        return code_questions(self._documents, self._config.rollout.max_calls_per_turn)

    def gates(self, context: PartContext, simulators: Sequence[SimulatorService]) -> Gates:
        from coevolve.environments.appworld.evolution import code_gates

        return code_gates(context, simulators, self._documents, self.source().trains_on)

    def task_index(self) -> TaskIndex:
        return Likenesses(self._config.validator.similarity, code_likeness)

    def wordings(self, body: msgspec.Raw) -> Sequence[Wording]:
        """Return none: its references are code, which may do the same work in many ways."""
        return ()

    def brief_context(self) -> BriefContext:
        from coevolve.environments.tools.synthesis.context import ToolBriefs

        return ToolBriefs(self._config, source=self.source(), called=_apis_named)

    def supervision(self, reader: Reader) -> Supervision:
        return CodeSupervision(self.renderer())

    async def conformance(self, most: int) -> tuple[Finding, ...]:
        """Return the findings of carrying out references and spoilt ones in a simulator."""
        from coevolve.environments.appworld.conformance import conformance

        source = self.source()

        async def instances(tasks: Sequence[Task], seed: int) -> Mapping[str, Task]:
            return await self.instances(tasks, seed, ())

        return await conformance(
            self.simulator(),
            source.pool()[:most],
            source.held_out()[:most],
            instances,
            self.capabilities,
        )

    async def hostile(self, most: int) -> tuple[Finding, ...]:
        """Return nothing: the adversary of this environment is a test."""
        return ()


class CodeSupervision(RewardsAlone):
    """A `protocols.interfaces.Supervision` of tasks whose references are blocks of code."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    def demonstration(self, task: Task) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return the reference in the policy's tokens; None if the task has none."""
        if not tool_task(task).turns[0].reference:
            return None
        return self._renderer.demonstration(task)


def _apis_named(code: str) -> tuple[str, ...]:
    """Return the APIs that a block names; none if it is no Python code."""
    try:
        return apis_in(code)
    except ValueError:
        return ()
