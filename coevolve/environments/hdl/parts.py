"""Builds the parts of a run on hardware designs from the run's config.

Modules that simulate, read RTL or render chats are imported inside the functions that need them, so
that the processes of runs without designs start without them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from coevolve.environments.hdl.config import LocalTeacher, TeacherModel
from coevolve.environments.hdl.needs import require_slang
from coevolve.environments.hdl.policy.interfaces import StepRenderer
from coevolve.environments.hdl.settings import hdl_settings
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.sdk import (
    has_chat_template,
    model_folder,
    shipped_folder,
    whole_model,
)
from protocols.config import TransformersEngine
from protocols.errors import ConfigError, DependencyError
from protocols.interfaces import Generator, SimulatorService
from protocols.synthesizers import EndpointModel

if TYPE_CHECKING:
    from coevolve.environments.hdl.curation.supervision import GrammarOf
    from coevolve.environments.hdl.designs.catalogue import Catalogue
    from coevolve.environments.hdl.designs.design import Design
    from coevolve.environments.hdl.policy.steps import StepWriter, TestbenchAgent
    from coevolve.environments.hdl.policy.teacher import Teacher
    from coevolve.environments.hdl.simulate.compiled_harness import HarnessSimulator
    from coevolve.environments.hdl.simulate.pool import EvaluationPool
    from coevolve.environments.hdl.simulate.wire import TestbenchClient
    from coevolve.environments.sdk import Agent, PartContext, VerifiedEngine
    from protocols.config import RunConfig
    from protocols.rollouts import Writer
    from protocols.tasks import Task

UNIFORM = 1e6
"""Temperature at which a model samples almost uniformly from the edits that its grammar allows."""

DESIGNS = shipped_folder("designs")


def clients(services: Sequence[SimulatorService]) -> "list[TestbenchClient]":
    """Return the simulators behind ``services``."""
    from coevolve.environments.hdl.simulate.wire import TestbenchClient

    return [TestbenchClient(service) for service in services]


def pool(services: Sequence[SimulatorService]) -> "EvaluationPool":
    """Return a pool of the simulators behind ``services``, without a result cache."""
    from coevolve.environments.hdl.simulate.pool import EvaluationPool

    return EvaluationPool(clients(services))


def designs(config: "RunConfig") -> "tuple[Design, ...]":
    """Return the run's designs of both splits, with plans if they earn. Raises ConfigError."""
    settings = hdl_settings(config)
    found = _load(Path(settings.designs) if settings.designs else DESIGNS)
    return tuple(each.planned for each in found) if settings.reward.plan else found


@cache
def _load(root: Path) -> "tuple[Design, ...]":
    """Return the folder's designs; cached for each process, since the check elaborates each one."""
    require_slang()
    from coevolve.environments.hdl.designs.folders import load_all

    return load_all(root)


def simulator(config: "RunConfig") -> "HarnessSimulator":
    """Return one member of the pool of simulators. Raises DependencyError."""
    require_slang()
    from coevolve.environments.hdl.simulate.compiled_harness import open_harnessed

    return open_harnessed(hdl_settings(config).form)


def check_designs(config: "RunConfig") -> None:
    """Make sure that there are designs to train on. Raises DependencyError and ConfigError."""
    splits = {design.file.split for design in designs(config)}
    if "train" not in splits:
        raise ConfigError(
            f"environment.designs: needs at least one design of the split train, found "
            f"{len(splits)} splits without it; give another folder, or leave it empty for the "
            "project's own"
        )


def check_teacher(config: "RunConfig") -> None:
    """Make sure that a local teacher is one to chat with.

    Raises DependencyError where its weights are not on disk, and ConfigError.
    """
    model = hdl_settings(config).teacher.model
    if not isinstance(model, LocalTeacher):
        return
    try:
        chats = has_chat_template(model_folder(model.model))
    except (ConfigError, DependencyError) as error:
        said = str(error).replace("policy.model", "environment.teacher.model.model")
        raise type(error)(said) from error
    if not chats:
        raise ConfigError(
            "environment.teacher.model.model: needs a model with a chat template, found "
            f"{model.model!r}, which has none; give another"
        )


def check_prompts(config: "RunConfig") -> None:
    """Refuse a chat model that cannot read the first prompt of a design, or has no room for it.

    Raises DependencyError and ConfigError.
    """
    folder = whole_model(config.policy.model)
    if folder is None or config.policy.tiny_random or not has_chat_template(folder):
        return
    from coevolve.environments.hdl.policy.chat import ChatStepRenderer
    from coevolve.environments.hdl.policy.task import coverage_task

    renderer = ChatStepRenderer.load(folder, config.policy.chat, hdl_settings(config))
    known = {design.design_id: design for design in designs(config)}
    tasks = [coverage_task(task) for task in scored_tasks(config)]
    sizes = {task.design: len(renderer.prompt(task, known[task.design], ())) for task in tasks}
    longest = max(sizes, key=lambda design: sizes[design], default="")
    most = config.rollout.max_tokens
    if longest and sizes[longest] >= most:
        raise ConfigError(
            f"rollout.max_tokens: needs room for the prompt and a message, found {most} for the "
            f"{sizes[longest]} tokens of the first prompt of design {longest} "
            f"({sum(size >= most for size in sizes.values())} of {len(sizes)} designs do not fit); "
            f"set it to {sizes[longest] + config.rollout.max_call_tokens} or more"
        )


def check_tiny(config: "RunConfig") -> None:
    """Raise ConfigError where a setting does not fit the tiny hardware policy."""
    hdl, engine = hdl_settings(config), config.rollout.engine
    for sound, field, needed, found in (
        (hdl.form == "stimulus", "environment.form", "stimulus", hdl.form),
        (isinstance(engine, TransformersEngine), "rollout.engine.kind", "transformers", "vllm"),
    ):
        if not sound:
            raise ConfigError(
                f"{field}: policy.model tiny_hdl needs {needed}, found {found}; it writes stimulus "
                "programs for hardware designs, within a grammar; set it, or give another model"
            )


def policy_agent(
    context: "PartContext",
    engine: Generator,
    workers: Sequence[TestbenchSimulator],
    *,
    temperature: float,
) -> "TestbenchAgent":
    """Return the agent with which the policy takes steps on designs."""
    from coevolve.environments.hdl.policy.steps import PolicyWriter

    known = catalogue(context.config)
    renderer = _renderer(context.config, known.known)
    writer = PolicyWriter(generator=engine, renderer=renderer, temperature=temperature)
    return _agent(context, writer, renderer, known, workers)


def writers(
    name: str,
    context: "PartContext",
    engine: "VerifiedEngine",
    simulators: Sequence[SimulatorService],
) -> "Mapping[Writer, Agent]":
    """Return the agents of all writers that any stage needs, for the part ``name``.

    The policy is always one of them.
    """
    config = context.config
    workers = clients(simulators)
    wanted = {writer for stage in hdl_settings(config).stages for writer in stage.writers}
    agents: dict[Writer, Agent] = {}
    temperatures: dict[Writer, float] = {"policy": config.rollout.temperature}
    if "grammar" in wanted:
        temperatures["grammar"] = UNIFORM
    for writer, temperature in temperatures.items():
        agents[writer] = policy_agent(context, engine.generator, workers, temperature=temperature)
    if "teacher" in wanted:
        agents["teacher"] = teacher_agent(name, context, workers, served=lambda: engine.version)
    return agents


def teacher_agent(
    name: str,
    context: "PartContext",
    workers: Sequence[TestbenchSimulator],
    *,
    served: Callable[[], int],
) -> "TestbenchAgent":
    """Return the agent with which a teacher takes steps on designs, in the policy's tokens.

    ``served`` returns the policy version of the engine in the same actor, the part ``name``.
    """
    config = context.config
    settings = hdl_settings(config).teacher
    model = settings.model
    assert model is not None, "a run file whose stages have a teacher names its model"
    from coevolve.environments.hdl.policy.chat import ChatStepRenderer
    from coevolve.environments.hdl.policy.teacher import TeacherWriter
    from coevolve.environments.sdk import Budget, JournalCallLog, Ledger

    known = catalogue(config)
    folder = model_folder(config.policy.model)
    renderer = ChatStepRenderer.load(folder, config.policy.chat, hdl_settings(config))
    teacher = _teacher(model, context.run_dir, config.rollout.concurrent)
    budget = Budget(
        section="environment.teacher",
        max_tokens=settings.max_tokens,
        max_cost_usd=settings.max_cost_usd,
        teaches=True,
    )
    ledger = Ledger(budget, context.reader)
    append = context.appender("delivery", name)

    def open_log(rollout: str) -> JournalCallLog:
        return JournalCallLog(
            rollout, "teaching", teacher.name, ledger=ledger, reader=context.reader, append=append
        )

    writer = TeacherWriter(
        teacher=teacher,
        renderer=renderer,
        rules=settings.rules,
        served=served,
        open_log=open_log,
    )
    return _agent(context, writer, renderer, known, workers)


def _teacher(model: TeacherModel, run_dir: Path, concurrent: int) -> "Teacher":
    """Return the teacher; loads the weights of a local one."""
    from coevolve.environments.hdl.policy.teacher import EndpointTeacher, InProcessTeacher

    match model:
        case EndpointModel():
            return EndpointTeacher(model)
        case LocalTeacher():
            from coevolve.environments.sdk import ChatTemplate, TransformersGenerator

            folder = model_folder(model.model)
            generator = TransformersGenerator(
                folder, run_dir, max_concurrent=concurrent, max_length=model.max_tokens
            )
            return InProcessTeacher(model, generator, ChatTemplate.load(folder, variables={}))


def _agent(
    context: "PartContext",
    writer: "StepWriter",
    renderer: StepRenderer,
    known: "Catalogue",
    workers: Sequence[TestbenchSimulator],
) -> "TestbenchAgent":
    from coevolve.environments.hdl.policy.steps import TestbenchAgent
    from coevolve.environments.hdl.simulate.pool import EvaluationPool
    from coevolve.environments.hdl.simulate.result_cache import RecallingSimulator
    from coevolve.environments.hdl.simulate.toolchain import find_toolchain

    hdl = hdl_settings(context.config)
    return TestbenchAgent(
        writer=writer,
        simulator=RecallingSimulator(EvaluationPool(workers), context.reader, find_toolchain()),
        renderer=renderer,
        designs=known,
        limits=context.config.rollout,
        simulation=hdl.limits,
        weights=hdl.reward,
    )


def catalogue(config: "RunConfig") -> "Catalogue":
    """Return the run's designs by id: those of its folder, and their instances."""
    from coevolve.environments.hdl.designs.catalogue import Catalogue

    return Catalogue(designs(config))


def _renderer(config: "RunConfig", known: "Mapping[str, Design]") -> StepRenderer:
    """Return the renderer of steps into the policy's tokens: the tiny policy's, or a chat."""
    folder = model_folder(config.policy.model)
    if not has_chat_template(folder):
        from coevolve.environments.hdl.policy.tiny.renderer import TinyStepRenderer

        return TinyStepRenderer(known)
    from coevolve.environments.hdl.policy.chat import ChatStepRenderer

    return ChatStepRenderer.load(folder, config.policy.chat, hdl_settings(config))


def grammar_of(config: "RunConfig") -> "GrammarOf | None":
    """Return a function from a task on a given design to the grammar of its steps.

    Returns None where the policy writes without a grammar.
    """
    if has_chat_template(model_folder(config.policy.model)):
        return None
    return _renderer(config, catalogue(config).known).grammar


def scored_tasks(config: "RunConfig") -> "Sequence[Task]":
    """Return the tasks that policy versions are scored on: one per design, from its beginning."""
    from coevolve.environments.hdl.policy.frontier import beginning

    return [beginning(design, config).task() for design in designs(config)]
