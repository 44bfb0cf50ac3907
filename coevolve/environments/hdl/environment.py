"""The environment ``hdl``: testbenches for hardware designs, graded by coverage."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import msgspec

from coevolve.environments.hdl import parts
from coevolve.environments.hdl.config import HdlConfig
from coevolve.environments.hdl.export.exporters import EXPORTERS, asked
from coevolve.environments.hdl.needs import require_slang
from coevolve.environments.hdl.policy.stages import is_learned_from, teaches_itself
from coevolve.environments.hdl.policy.task import read_body
from coevolve.environments.hdl.policy.tiny.vocabulary import MODEL, TINY_HDL
from coevolve.environments.hdl.requires import REQUIRES
from coevolve.environments.hdl.settings import hdl_settings
from coevolve.environments.hdl.simulate.toolchain import TOOLS
from coevolve.environments.sdk import (
    HELD_OUT,
    TINY,
    AnnotatedSource,
    Environment,
    Exporter,
    Fault,
    Finding,
    Requirements,
    has_chat_template,
    lacking,
    objective_of,
    whole_model,
)
from protocols.capabilities import Capabilities
from protocols.config import RunConfig
from protocols.errors import ConfigError
from protocols.evolution import GroupSummary
from protocols.interfaces import Reader, SimulatorService, Supervision
from protocols.rollouts import Writer
from protocols.synthesizers import EndpointModel
from protocols.tasks import SPLITS, Task, TaskText

if TYPE_CHECKING:
    from coevolve.environments.hdl.observer import DesignObserver
    from coevolve.environments.sdk import Agent, PartContext, Scorer, TaskSampler, VerifiedEngine


class Hdl(Environment):
    """Testbenches for hardware designs."""

    config_type: ClassVar[type[msgspec.Struct]] = HdlConfig
    requires: ClassVar[Requirements] = REQUIRES
    patience_s: float = 600.0
    name: ClassVar[str] = "hdl"
    capabilities: ClassVar[Capabilities] = Capabilities(references=False, fresh_instances=True)
    exports: ClassVar[Mapping[str, Exporter]] = EXPORTERS
    commands: ClassVar[Mapping[str, str]] = {
        name: f"coevolve.environments.hdl.cli:{name.replace('-', '_')}"
        for name in ("adopt", "simulate", "merge", "qualify", "serve-queue")
    }
    evaluation: ClassVar[str] = "coevolve.environments.hdl.evaluation.options:EVALUATION"
    own_models = MappingProxyType({TINY_HDL: MODEL})

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._settings = hdl_settings(config)

    def faults(self) -> Sequence[Fault]:
        """Return the faults of stages, and of settings that hdl does not support."""
        config, learner = self._config, self._config.learner
        return (
            *_stage_rules(config, self._settings),
            (
                config.arm != "static",
                f"$.arm: environment hdl trains on the designs that it is given and makes no tasks "
                f"of its own, so it needs static, found {config.arm}; choose static",
            ),
            (
                config.pool.new_instances,
                "$.pool.new_instances: environment hdl has instances for evaluations only; leave "
                "it false",
            ),
            (
                learner.credit == "turn",
                "$.learner.credit: turn needs tasks of several turns, and tasks of environment hdl "
                "have one; choose rollout",
            ),
            (
                isinstance(config.validator.reader, EndpointModel),
                "$.validator.reader: environment hdl has no instructions to read; leave it out",
            ),
            (
                self._settings.rarity_bonus > 0 and not objective_of(learner).compares_rewards,
                f"$.environment.rarity_bonus: {self._settings.rarity_bonus} needs a policy "
                f"gradient, found objective {learner.objective_kind}; set it to 0",
            ),
            *_reward_rules(self._settings),
        )

    def check(self) -> Sequence[str]:
        """Return what the machine lacks: pyslang, programs of the toolchain, a local teacher."""
        config = self._config
        self._check_policy()
        designs, teacher = (
            partial(parts.check_designs, config),
            partial(parts.check_teacher, config),
        )
        prompts = partial(parts.check_prompts, config)
        return lacking(require_slang, *TOOLS, designs, teacher, prompts)

    def endpoints(self) -> Mapping[str, EndpointModel]:
        """Return the teacher, if a stage has one."""
        model = self._settings.teacher.model
        teaches = any("teacher" in stage.writers for stage in self._settings.stages)
        if not (teaches and isinstance(model, EndpointModel)):
            return {}
        return {"environment.teacher.model": model}

    def _check_policy(self) -> None:
        config = self._config
        if config.policy.model == TINY_HDL:
            parts.check_tiny(config)
            return
        folder = whole_model(config.policy.model)
        if folder is not None and not (config.policy.tiny_random or has_chat_template(folder)):
            raise ConfigError(
                "environment hdl needs a policy.model with a chat template, found "
                f"{config.policy.model!r}, which has none; give another"
            )

    def make_model(self, folder: Path) -> None:
        """Write the tiny hardware policy, with random weights, when a run begins."""
        if self._config.policy.model == TINY_HDL:
            from coevolve.environments.hdl.policy.tiny.model import write_model

            write_model(self._config.seed, folder, plans=self._settings.reward.plan > 0)

    def texts(self) -> Iterator[str]:
        """Yield the specifications, RTL and testbenches of the training designs."""
        for design in parts.designs(self._config):
            if design.file.split == "train":
                yield design.specification
                yield from (file.text for file in design.unit.files)
                yield from design.testbenches.values()

    @property
    def imitates_others(self) -> bool:
        """Whether a stage trains on what a teacher or a grammar writes."""
        return not teaches_itself(self._settings.stages)

    def describe(self, task: Task) -> TaskText:
        """Return what the task asks for, on which design."""
        return TaskText(headline=asked(read_body(task.body)))

    async def sources(
        self, reader: Reader, visits: Iterable[GroupSummary]
    ) -> Sequence[AnnotatedSource]:
        """Return the RTL of the designs with the points that rollouts covered."""
        from coevolve.environments.hdl.export.annotated import annotated

        return await annotated(reader, visits)

    def sampler(self) -> "TaskSampler":
        """Return the frontier of states; it has read no journal records yet."""
        from coevolve.environments.hdl.policy.frontier import Frontier

        designs = parts.designs(self._config)
        return Frontier(self._config, [each for each in designs if each.file.split == "train"])

    def scored_tasks(self) -> Sequence[Task]:
        """Return one task per design, from its beginning."""
        return parts.scored_tasks(self._config)

    def canaries(self) -> Sequence[Task]:
        """Return the tasks on training designs: there are too few designs to set some apart."""
        return [task for task in self.scored_tasks() if task.split == "train"]

    async def instances(
        self, tasks: Sequence[Task], seed: int, simulators: Sequence[SimulatorService]
    ) -> Mapping[str, Task]:
        """Return the tasks on designs with other names and secrets that hold by simulation."""
        require_slang()
        from coevolve.environments.hdl.designs.instances import DesignInstances

        designs, limits = parts.designs(self._config), self._settings.limits
        return await DesignInstances(designs, parts.pool(simulators), limits).of(tasks, seed)

    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """Return for each design whether it is seen or held out, and its family."""
        return {
            design.design_id: (
                "seen designs" if design.file.split == "train" else HELD_OUT,
                f"family {design.file.family}",
            )
            for design in parts.designs(self._config)
        }

    def simulator(self) -> SimulatorService:
        """Return the simulator: Verilator, with its compiled harnesses. Raises DependencyError."""
        from coevolve.environments.hdl.simulate.wire import TestbenchService

        return TestbenchService(parts.simulator(self._config), self._settings.concurrent)

    def agents(
        self,
        name: str,
        context: "PartContext",
        engine: "VerifiedEngine",
        simulators: Sequence[SimulatorService],
    ) -> "Mapping[Writer, Agent]":
        """Return the agents of the policy and of every other writer that a stage needs."""
        return parts.writers(name, context, engine, simulators)

    def scorer(
        self,
        context: "PartContext",
        engine: "VerifiedEngine",
        simulators: Sequence[SimulatorService],
    ) -> "Scorer":
        """Return the scorer, which lets the policy take some steps on each design."""
        from coevolve.environments.hdl.policy.steps import StepScorer

        agent = parts.policy_agent(
            context,
            engine.generator,
            parts.clients(simulators),
            temperature=self._settings.evaluation_temperature,
        )
        return StepScorer(
            agent=agent,
            rounds=self._settings.evaluation_rounds,
            keeps_best=self._settings.memory == "best",
            weights=self._settings.reward,
            planned=frozenset(
                each.design_id for each in parts.designs(self._config) if each.unit.plan
            ),
        )

    def observer(self, reader: Reader, simulators: Sequence[SimulatorService]) -> "DesignObserver":
        """Return the observer of coverage points."""
        from coevolve.environments.hdl.observer import DesignObserver

        return DesignObserver(
            self._config,
            reader=reader,
            catalogue=parts.catalogue(self._config),
            simulator=parts.pool(simulators),
        )

    async def conformance(self, most: int) -> tuple[Finding, ...]:
        """Return the findings of two simulations of at most ``most`` designs per split."""
        require_slang()
        from coevolve.environments.hdl.conformance import conformance

        designs = parts.designs(self._config)
        sides = [[each for each in designs if each.file.split == side] for side in SPLITS]
        service = self.simulator()
        try:
            (simulator,) = parts.clients([service])
            chosen = [design for side in sides for design in side[:most]]
            return await conformance(chosen, simulator, self._settings.limits, self.capabilities)
        finally:
            await service.close()

    def supervision(self, reader: Reader) -> Supervision:
        """Return coverage-guided rejection, the rarity bonus and the tiny policy's grammar."""
        from coevolve.environments.hdl.curation.supervision import DesignSupervision

        has_grammar = objective_of(self._config.learner).is_on_policy
        return DesignSupervision(
            self._settings,
            parts.grammar_of(self._config) if has_grammar else None,
        )


def _reward_rules(hdl: HdlConfig) -> tuple[Fault, ...]:
    weights = hdl.reward
    return (
        (
            weights.mutants > 0 and hdl.form == "stimulus" and weights.trial.counts == "noticed",
            "$.environment.reward.trial.counts: a stimulus program has no checks, so it notices "
            "nothing; choose shown, or form testbench",
        ),
    )


def _stage_rules(config: RunConfig, hdl: HdlConfig) -> tuple[Fault, ...]:
    stages = hdl.stages
    writers: set[Writer] = {writer for stage in stages for writer in stage.writers}
    endless = [index for index, stage in enumerate(stages[:-1]) if not stage.groups]
    return (
        *_writer_rules(config, hdl, writers),
        *_objective_rules(config, hdl, writers),
        (
            bool(endless),
            f"$.environment.stages: every stage but the last needs groups of 1 or more, found 0 "
            f"for stage {', '.join(map(str, endless))}; set its number of groups",
        ),
        (
            stages[-1].groups > 0,
            f"$.environment.stages: the last stage lasts to the run's end and needs groups 0, "
            f"found {stages[-1].groups}; set the run's end with learner.steps",
        ),
    )


def _writer_rules(config: RunConfig, hdl: HdlConfig, writers: set[Writer]) -> tuple[Fault, ...]:
    teaches = "teacher" in writers
    return (
        (
            "grammar" in writers and config.policy.model != TINY_HDL,
            f"$.environment.stages: the writer grammar needs policy.model = {TINY_HDL}, found "
            f"{config.policy.model}; leave it out",
        ),
        (
            teaches and hdl.teacher.model is None,
            "$.environment.teacher.model: the writer teacher of environment.stages needs a model, "
            "found none; set one of kind endpoint or local",
        ),
        (
            teaches and config.policy.model in (TINY, TINY_HDL),
            f"$.environment.stages: the writer teacher needs a policy with a chat template, found "
            f"policy.model = {config.policy.model}; leave it out, or set another model",
        ),
        (
            teaches and config.policy.chat.thinking,
            "$.policy.chat.thinking: a teacher's answers come without its reasoning, so the writer "
            "teacher of environment.stages needs it false, found true",
        ),
    )


def _objective_rules(config: RunConfig, hdl: HdlConfig, writers: set[Writer]) -> tuple[Fault, ...]:
    kind, objective = config.learner.objective_kind, objective_of(config.learner)
    lends = [
        stage.writers
        for stage in hdl.stages
        if "policy" in stage.writers and not is_learned_from(stage, "policy")
    ]
    return (
        (
            objective.needs_initial_model and writers != {"policy"},
            f"$.learner.objective: {kind} needs environment.stages of the writer policy alone, "
            f"found {', '.join(sorted(writers))}; choose {{kind: sft}}",
        ),
        (
            objective.needs_initial_model and config.policy.model == TINY_HDL,
            f"$.learner.objective: policy.model {TINY_HDL} samples within a grammar, which {kind} "
            "does not support; choose {kind: sft}, or a policy gradient",
        ),
        (
            objective.is_on_policy and bool(lends),
            "$.environment.stages: with a policy gradient, what the policy writes is trained on, "
            f"so it has to be the last writer of its stage, found {lends and lends[0]}; split "
            "the stage, or choose learner.objective {kind: sft}",
        ),
    )
