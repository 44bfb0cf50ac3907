"""Opens who attempts tasks with several attempts at each: a policy here, or an endpoint."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from coevolve.commands.attempts import Author, Which
from coevolve.commands.subjects import OfRunFile, served_policy
from coevolve.delivery.engine import proven_engine
from coevolve.environments.registry import environment_of
from coevolve.environments.tools.environment import ToolEnvironment
from coevolve.models.model_folder import model_folder
from coevolve.models.tokenizer_file import read_tokenizer
from protocols.config import ChatConfig, RolloutConfig, RunConfig
from protocols.errors import ConfigError
from protocols.synthesizers import EndpointModel
from protocols.tasks import Task

WHOLE = RolloutConfig(max_tokens=1 << 22, max_call_tokens=1 << 20)
"""Limits of an endpoint's conversations, in characters; the server limits a message's tokens."""


def tool_environment(config: RunConfig) -> ToolEnvironment:
    """Return the environment, in which an author calls tools. Raises ConfigError for others."""
    environment = environment_of(config)
    if not isinstance(environment, ToolEnvironment):
        raise ConfigError(
            f"environment {config.uses}: needs one in which a policy calls tools, such as a "
            "class of your own; `coevolve evaluate --config FILE` scores policies of others"
        )
    return environment


def tools_used(environment: ToolEnvironment, task: Task) -> tuple[str, ...]:
    """Return the tools of the task's reference, each once; without one, the task's skills."""
    tools = tuple(dict.fromkeys(environment.describe(task).tools))
    return tools or task.skills


def tasks_of(environment: ToolEnvironment, which: Which) -> tuple[Task, ...]:
    """Return the tasks of a split, or of both. Raises ConfigError."""
    source = environment.source()
    train = tuple(source.pool()) if which != "held_out" else ()
    held_out = tuple(source.held_out()) if which != "train" else ()
    return (*train, *held_out)


@asynccontextmanager
async def policy_author(config: RunConfig) -> AsyncGenerator[Author]:
    """Yield the model that a run with these settings starts from. Raises CoevolveError."""
    async with served_policy(OfRunFile(), config) as policy:
        running = policy.context.config
        environment = environment_of(running)
        simulator = environment.simulator()
        engine = proven_engine(policy.context, "evaluate", policy.engine)
        decode = _decoder(running)
        try:
            agents = environment.agents("evaluate", policy.context, engine, [simulator])
            yield Author(name=config.policy.model, agent=agents["policy"], decode=decode)
        finally:
            await simulator.close()


@asynccontextmanager
async def endpoint_author(
    environment: ToolEnvironment, endpoint: EndpointModel
) -> AsyncGenerator[Author]:
    """Yield the model behind an endpoint. Raises ConfigError if it cannot act in the environment.

    The environment's ``rollout.max_tokens`` counts characters then (`WHOLE`).
    """
    from coevolve.environments.tools.chat.endpoint import (  # it imports transformers
        EndpointEngine,
        decoded,
        endpoint_renderer,
    )

    if type(environment).renderer is not ToolEnvironment.renderer:
        raise ConfigError(
            f"--endpoint: needs an environment in which a policy calls tools, found "
            f"{environment.name}, whose policy writes in a form of its own; leave it out"
        )
    renderer = endpoint_renderer(ChatConfig(tools="prompt"), ends_turn=environment.ends_turns)
    engine, simulator = EndpointEngine(endpoint), environment.simulator()
    try:
        agent = environment.agent(engine, [simulator], endpoint.temperature, 0.0, renderer)
        yield Author(name=endpoint.model, agent=agent, decode=decoded)
    finally:
        await simulator.close()
        await engine.close()


def _decoder(config: RunConfig):
    tokenizer = read_tokenizer(model_folder(config.policy.model))

    def decode(token_ids: Sequence[int]) -> str:
        return tokenizer.decode(list(token_ids), skip_special_tokens=False)

    return decode
