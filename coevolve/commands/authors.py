"""Opens who attempts tasks with several attempts at each: a policy here, or an endpoint."""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from msgspec.structs import replace

from coevolve.commands.attempts import Attempts, Author, Say, Which, attempts_of
from coevolve.commands.subjects import OfRunFile, Subject, served_policy
from coevolve.delivery.engine import VerifiedEngine
from coevolve.environments.findings import counted
from coevolve.environments.registry import environment_of
from coevolve.environments.tools.environment import ToolEnvironment
from coevolve.models.model_folder import model_folder
from coevolve.models.tokenizer_file import read_tokenizer
from protocols.config import ChatConfig, Engine, RolloutConfig, RunConfig
from protocols.errors import ConfigError
from protocols.synthesizers import EndpointModel
from protocols.tasks import Task

ENDPOINT_CONCURRENT = 8
"""Attempts of an endpoint at a time."""

WHOLE = RolloutConfig(max_tokens=1 << 22, max_call_tokens=1 << 20)
"""Limits of an endpoint's conversations, in characters; the server limits a message's tokens."""


def tool_environment(config: RunConfig) -> ToolEnvironment:
    """Return the environment, in which an author calls tools. Raises ConfigError for others."""
    environment = environment_of(config)
    if not isinstance(environment, ToolEnvironment):
        raise ConfigError(
            f"environment {config.uses}: needs one in which a policy calls tools, such as a "
            "class of your own; of others, `coevolve evaluate RUN` and `--config FILE` alone score"
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
async def policy_author(
    config: RunConfig, subject: Subject | None = None, temperature: float | None = None
) -> AsyncGenerator[Author]:
    """Yield a policy, by default the model that a run with these settings starts from.

    It samples at ``temperature``, by default at ``rollout.temperature``; 0 is greedy. Raises
    CoevolveError.
    """
    async with served_policy(subject or OfRunFile(), config) as policy:
        running = policy.context.config
        environment = tool_environment(running)
        simulator = environment.simulator()
        engine = VerifiedEngine(policy.context, "evaluate", policy.engine)
        sampled = running.rollout.temperature if temperature is None else temperature
        try:
            agent = environment.agent(
                engine.generator, [simulator], sampled, environment.attempt_gather_s
            )
            name = config.policy.model if subject is None else policy.name
            yield Author(name=name, agent=agent, decode=_decoder(running))
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


def score_policy(
    config: RunConfig,
    tasks: Sequence[Task],
    attempts: int,
    say: Say,
    *,
    subject: Subject | None = None,
    temperature: float | None = None,
) -> Attempts:
    """Score a policy on tasks, on all cores; see `policy_author`. Raises CoevolveError."""
    concurrent = config.rollout.concurrent
    serving = replace(
        config,
        evaluator=replace(config.evaluator, concurrent=concurrent),
        rollout=replace(config.rollout, engine=alone(config.rollout.engine)),
    )

    author = policy_author(serving, subject, temperature)
    return _scored(author, config, tasks, attempts, concurrent, say)


def score_endpoint(
    config: RunConfig,
    endpoint: EndpointModel,
    tasks: Sequence[Task],
    attempts: int,
    say: Say,
) -> Attempts:
    """Score the model behind an endpoint on tasks. Raises CoevolveError."""
    whole = replace(config, rollout=WHOLE)
    author = endpoint_author(tool_environment(whole), endpoint)
    return _scored(author, whole, tasks, attempts, ENDPOINT_CONCURRENT, say)


def _scored(
    opening: AbstractAsyncContextManager[Author],
    config: RunConfig,
    tasks: Sequence[Task],
    attempts: int,
    concurrent: int,
    say: Say,
) -> Attempts:
    """Score the author that ``opening`` yields, within the limits of ``config``."""

    async def scored() -> Attempts:
        async with opening as author:
            each = f"{counted(attempts, 'attempt')} at each of {len(tasks)} tasks"
            say(f"scoring {author.name}: {each}")
            return await attempts_of(
                author,
                tasks,
                partial(tools_used, tool_environment(config)),
                config.rollout,
                attempts=attempts,
                concurrent=concurrent,
                say=say,
            )

    return asyncio.run(scored())


def alone(engine: Engine) -> Engine:
    """Return the engine's settings for a process that has the whole machine."""
    return replace(engine, threads=max(engine.threads, len(os.sched_getaffinity(0))))
