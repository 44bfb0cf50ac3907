"""The environment ``toolbox``: a generated domain with exact scores, to compare ways of choosing.

It has several hundred cells, far more than a run can practise often, and each has to be learned by
itself. So it matters which tasks a run makes, and exact scores show it without sampling error.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec

from coevolve.delivery.engine import VerifiedEngine
from coevolve.environments.interface import Fault
from coevolve.environments.settings import settings_of
from coevolve.environments.tools.cells import JOIN
from coevolve.environments.tools.environment import ToolEnvironment
from coevolve.environments.tools.task import tool_task
from coevolve.environments.tools.toolbox.domain import CLASS, LENGTHS, Cell, cell_of, is_held_out
from coevolve.environments.tools.toolbox.renderer import ToolboxRenderer
from coevolve.environments.tools.toolbox.scorer import LikelihoodScorer
from coevolve.environments.tools.toolbox.settings import ToolboxConfig
from coevolve.environments.tools.toolbox.source import ToolboxSource, instance
from coevolve.environments.tools.toolbox.words import IDS, MODEL, TOOLBOX, TOOLS
from coevolve.models.architecture import ModelConfig
from coevolve.models.model_folder import whole_model
from coevolve.models.tokenizer_file import read_tokenizer
from coevolve.parts.context import PartContext
from coevolve.rollouts.evaluator import Scorer
from coevolve.validation.gates import Gates, NoIndex
from coevolve.validation.wordings import Wording
from protocols.config import RunConfig, TransformersEngine
from protocols.errors import ConfigError
from protocols.interfaces import SimulatorService
from protocols.synthesizers import PolicyModel, SynthesizerReader
from protocols.tasks import Task

if TYPE_CHECKING:
    from coevolve.synthesis.worker import SynthesizerWorker


class ToolboxEnvironment(ToolEnvironment):
    """Tools, links of two and chains of three, generated from a seed and scored exactly."""

    config_type: ClassVar[type[msgspec.Struct]] = ToolboxConfig
    name: ClassVar[str] = TOOLBOX
    swappable: ClassVar[bool] = False
    own_models: ClassVar[Mapping[str, ModelConfig]] = {TOOLBOX: MODEL}

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._settings = settings_of(config, ToolboxConfig)

    def faults(self) -> Sequence[Fault]:
        """Return the rules that exact scores and the made policy add."""
        config = self._config
        engine = config.rollout.engine
        return (
            (
                not isinstance(engine, TransformersEngine) or config.evaluator.engine != "own",
                "$.evaluator.engine: environment toolbox scores by likelihoods, and needs own with "
                f"rollout.engine.kind transformers, found {config.evaluator.engine} with "
                f"{type(engine).__name__}; set both",
            ),
            (
                config.policy.tiny_random,
                "$.policy.tiny_random: environment toolbox makes its own tiny policy, found true; "
                "leave it out",
            ),
            (
                not isinstance(config.synthesizer.model, PolicyModel)
                or not isinstance(config.validator.reader, SynthesizerReader),
                "$.synthesizer.model, $.validator.reader: environment toolbox makes and reads its "
                "tasks by its grammar, and asks no model; leave both out",
            ),
        )

    def make_model(self, folder: Path) -> None:
        """Write the initial policy when a run begins."""
        from coevolve.environments.tools.toolbox.model import write_kept_model

        if self._config.policy.model == TOOLBOX:
            write_kept_model(self._config.seed, self._settings, folder)

    def check(self) -> Sequence[str]:
        """Refuse a policy on disk that does not speak a toolbox's words. Raises ConfigError."""
        folder = whole_model(self._config.policy.model)
        if folder is not None and read_tokenizer(folder).get_vocab() != IDS:
            raise ConfigError(
                f"policy.model: environment toolbox needs {TOOLBOX}, or a folder with a policy "
                f"that began as such, found {self._config.policy.model}, which has other tokens"
            )
        return ()

    def source(self) -> ToolboxSource:
        """Return new tasks for every group in arm ``uniform``, a fixed pool in other arms."""
        return self._source

    @cached_property
    def _source(self) -> ToolboxSource:
        is_uniform = self._config.arm == "uniform"
        return ToolboxSource(self._config.seed, self._settings, is_uniform=is_uniform)

    def tool_sets(self) -> tuple[str, ...]:
        """Return the class of the tools."""
        return (CLASS,)

    def tools(self) -> tuple[str, ...]:
        """Return the tools of the domain."""
        return TOOLS[: self._settings.tools]

    def kinds(self, task: Task) -> tuple[str, ...]:
        """Return the length of the task's cell, and whether training may have it."""
        cell = _cell(task)
        return (LENGTHS[len(cell) - 1], *(["chain held out"] if is_held_out(cell) else []))

    def cells(self) -> Mapping[str, str]:
        """Return the cells that training may have, each with its scored task."""
        of = {task.task_id: _cell(task) for task in self.scored_tasks()}
        return {JOIN.join(cell): task for task, cell in of.items() if not is_held_out(cell)}

    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """Return the kinds: every task has one turn."""
        return {task.task_id: self.kinds(task) for task in self.scored_tasks()}

    def renderer(self) -> ToolboxRenderer:
        """Return the format of one token a word."""
        return ToolboxRenderer()

    def scorer(
        self,
        context: PartContext,
        engine: VerifiedEngine,
        simulators: Sequence[SimulatorService],
    ) -> Scorer:
        """Return a scorer that makes no attempts: it computes the rate at which they succeed."""
        return LikelihoodScorer(engine, self.renderer(), (*self.scored_tasks(), *self.canaries()))

    async def instances(
        self, tasks: Sequence[Task], seed: int, simulators: Sequence[SimulatorService]
    ) -> Mapping[str, Task]:
        """Return the same cells with other things."""
        return {task.task_id: instance(self._source.domain, task, seed) for task in tasks}

    def synthesizer(
        self, context: PartContext, simulators: Sequence[SimulatorService]
    ) -> "SynthesizerWorker":
        """Return the part that makes tasks of the domain's grammar."""
        from coevolve.environments.tools.toolbox.synthesizer import ToolboxSynthesizer
        from coevolve.synthesis.worker import SynthesizerWorker

        return SynthesizerWorker(
            context,
            open_model=lambda model: ToolboxSynthesizer(self._source.domain),
            told=self.brief_context(),
            cells=self.cells(),
        )

    def gates(self, context: PartContext, simulators: Sequence[SimulatorService]) -> Gates:
        from coevolve.environments.tools.evolution import trial_pool
        from coevolve.environments.tools.toolbox.gates import toolbox_gates

        return toolbox_gates(trial_pool(simulators), self._source.domain)

    def task_index(self) -> NoIndex:
        """Return an index that finds nothing: a cell may be practised with many things."""
        return NoIndex()

    def wordings(self, body: msgspec.Raw) -> Sequence[Wording]:
        """Return none: the grammar says what a request means."""
        return ()


def _cell(task: Task) -> Cell:
    cell, _ = cell_of(tool_task(task).turns[0].instruction)
    return cell
