"""Serves a policy to any OpenAI client, or talks to it in a terminal.

The policy is a version of a run, with the run's settings, or a model in a folder. Nothing is
written to the run, which may continue meanwhile.
"""

import asyncio
import json
import secrets
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from coevolve.base.loopback import listener
from coevolve.commands.authors import alone
from coevolve.commands.subjects import OfRun, served_policy
from coevolve.engine.open_engine import open_engine
from coevolve.environments.tools.chat.named_calls import with_tools
from coevolve.gateway.gateway import Gateway
from coevolve.gateway.messages import MODEL, RefusedError, read_chat
from coevolve.gateway.session import GatewaySession, Sampling
from coevolve.history import finding
from coevolve.models.model_files import has_chat_template
from coevolve.models.model_folder import HUB_ID, check_model, model_config, model_folder
from coevolve.parts import logs
from protocols.config import PolicyConfig, RolloutConfig, RunConfig
from protocols.errors import ConfigError, RunError
from protocols.interfaces import Generator

CONVERSATIONS = 8
"""Maximum number of conversations at once; further ones wait."""

MAX_TOKENS = 8192
"""Maximum tokens of a conversation with a model that no run trained."""

MAX_MESSAGE_TOKENS = 2048


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What the command line names."""

    given: str
    """A run's folder, its name under ``runs``, or a model."""

    runs: Path
    version: str
    """Of a run: a number, ``newest`` or ``best``; empty if none was named."""

    temperature: float | None
    """None for that of the run's rollouts."""


def serve(policy: Policy, port: int) -> None:
    """Serve until interrupted. Raises CoevolveError."""
    with logs.errors_alone(), listener(port) as listening:
        asyncio.run(_serve(policy, Gateway(listening)))


async def _serve(policy: Policy, gateway: Gateway) -> None:
    async with _sampling(policy) as (name, sampling), gateway.standing(sampling) as (url, key):
        sys.stdout.write(
            f"export OPENAI_BASE_URL={url} OPENAI_API_KEY={key}\n"
            f"{name} is the model {MODEL!r} there, until Ctrl-C. It samples at temperature "
            f"{sampling.temperature:g}, whatever a client asks for.\n"
        )
        sys.stdout.flush()
        await asyncio.Event().wait()


def chat(policy: Policy) -> None:
    """Answer the lines of standard input. Raises CoevolveError."""
    with logs.errors_alone():
        asyncio.run(_chat(policy))


async def _chat(policy: Policy) -> None:
    is_terminal = sys.stdin.isatty()
    async with _sampling(policy) as (name, sampling):
        if is_terminal:
            sys.stdout.write(f"{name}; Ctrl-D ends the conversation.\n")
        talk = _Talk(sampling)
        for line in _lines(prompt="> " if is_terminal else ""):
            sys.stdout.write(f"{await talk.answer(line)}\n")
            sys.stdout.flush()


def _lines(prompt: str) -> Iterator[str]:
    """Yield the lines of standard input that are not empty."""
    while True:
        sys.stdout.write(prompt)
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            sys.stdout.write("\n" if prompt else "")
            return
        if line.strip():
            yield line.removesuffix("\n")


class _Talk:
    """A conversation; when it is full, another one begins."""

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling
        self._begin()

    def _begin(self) -> None:
        seed = secrets.randbits(31)
        self._session = GatewaySession(f"chat-{seed}", self._sampling, seed)
        self._messages: list[dict[str, Any]] = []

    async def answer(self, text: str) -> str:
        """Return the policy's answer, or why there is none. Raises GeneratorError."""
        asked = [*self._messages, {"role": "user", "content": text}]
        try:
            body = json.dumps({"messages": asked}).encode()
            said = await self._session.chat(read_chat(body), is_retry=False)
        except RefusedError as error:
            if not self._session.is_full:
                return f"({error})"
            await self._session.end()
            self._begin()
            return f"({error}; a new conversation begins)"
        self._messages = [*asked, {"role": "assistant", "content": said.text}]
        return said.text


@asynccontextmanager
async def _sampling(policy: Policy) -> AsyncGenerator[tuple[str, Sampling]]:
    """Yield the policy's name, and how it is sampled. Raises CoevolveError."""
    if (model := _model(policy)) is not None:
        async with _model_engine(model) as (config, engine):
            yield policy.given, _sampled(config, engine, policy.temperature)
        return
    run = finding.find(policy.given, policy.runs)
    config = run.config()
    config = replace(config, evaluator=replace(config.evaluator, concurrent=CONVERSATIONS))
    config = replace(config, rollout=replace(config.rollout, engine=alone(config.rollout.engine)))
    _check_template(config.policy.model)
    async with served_policy(OfRun(run, policy.version or "newest"), config) as served:
        engine = served.engine
        yield served.name, _sampled(served.context.config, engine, policy.temperature)


def _sampled(config: RunConfig, engine: Generator, temperature: float | None) -> Sampling:
    """Return how a policy is sampled. Raises ConfigError."""
    temperature = config.rollout.temperature if temperature is None else temperature
    return with_tools(Sampling.load(config, engine, temperature), config.policy.chat)


def _model(policy: Policy) -> str | None:
    """Return the model that is named; None if it is a run. Raises CoevolveError."""
    folder = Path(policy.given)
    if not _holds_model(folder):
        try:
            finding.find(policy.given, policy.runs)
        except RunError as error:
            if not HUB_ID.fullmatch(policy.given) or folder.is_dir():
                raise RunError(
                    f"{error}. A model needs a folder with config.json, *.safetensors and a "
                    "tokenizer, or a name ORG/NAME"
                ) from error
        else:
            return None
    if policy.version:
        raise RunError(f"--version {policy.version}: needs a RUN, found the model {policy.given}")
    return policy.given


def _holds_model(folder: Path) -> bool:
    with suppress(OSError):  # such as a name that is too long
        return (folder / "config.json").is_file()
    return False


@asynccontextmanager
async def _model_engine(model: str) -> AsyncGenerator[tuple[RunConfig, Generator]]:
    """Yield an engine that serves a model, and its settings. Raises CoevolveError."""
    named = PolicyConfig(model=model)
    check_model(named, ())
    _check_template(model)
    positions = int(model_config(named).get("max_position_embeddings", MAX_TOKENS))
    most = min(positions, MAX_TOKENS)
    rollout = RolloutConfig(max_tokens=most, max_call_tokens=min(MAX_MESSAGE_TOKENS, most))
    rollout = replace(rollout, engine=alone(rollout.engine))
    config = RunConfig(name="serve", policy=named, rollout=rollout)
    engine = open_engine(config, Path(model), CONVERSATIONS)
    try:
        yield config, engine
    finally:
        await engine.close()


def _check_template(model: str) -> None:
    """Refuse a model that nobody can talk to. Raises ConfigError."""
    if not has_chat_template(model_folder(model)):
        raise ConfigError(f"{model}: needs a chat template, found none; name another model")
