"""A gateway's engine that splits words unusually, and clients that talk to it by hand."""

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

from coevolve.environments.tools.chat.named_calls import call_reader
from coevolve.gateway.messages import read_chat
from coevolve.gateway.session import CallReader, GatewaySession, Sampling
from coevolve.models.chat_template import ChatTemplate
from protocols import columns
from protocols.config import ChatConfig, RolloutConfig
from protocols.errors import GeneratorError
from protocols.generation import Generation, GenerationRequest
from protocols.learning import PolicyVersion, ServedWeights
from protocols.rollouts import Tokens
from tests.coevolve.environments.tools.chat import models

CUT = "<cut>"
"""Ends a text of a script that a limit of tokens cuts off."""


class SplittingGenerator:
    """Says the texts of a script, each in pieces that its tokenizer would not make."""

    def __init__(self, template: ChatTemplate, script: Sequence[str], seed: int = 0) -> None:
        self.template = template
        self.script = list(script)
        self.random = random.Random(seed)
        self.requests: list[GenerationRequest] = []
        self.sampled: list[tuple[int, ...]] = []
        self.released: list[str] = []

    def pieces(self, text: str) -> tuple[int, ...]:
        ids: list[int] = []
        while text:
            size = self.random.randint(1, 3)
            ids += self.template.encode(text[:size])
            text = text[size:]
        return tuple(ids)

    async def generate(self, request: GenerationRequest) -> Generation:
        self.requests.append(request)
        if not self.script:
            raise GeneratorError("the script has ended")
        text = self.script.pop(0)
        ids = self.pieces(text.removesuffix(CUT))
        ids = (ids if text.endswith(CUT) else (*ids, self.template.stop_ids[0]))[
            : request.max_tokens
        ]
        self.sampled.append(ids)
        return Generation(
            token_ids=ids,
            logprobs=(-0.5,) * len(ids),
            versions=(3,) * len(ids),
            stopped=ids[-1] in request.stop_ids,
        )

    async def release(self, conversation_id: str) -> None:
        self.released.append(conversation_id)

    async def load(self, version: PolicyVersion) -> ServedWeights:
        raise NotImplementedError

    def cpu_s(self) -> float:
        return 0.0

    async def close(self) -> None: ...


def template_of(source: str = models.TAGS, *, end: str = "<|im_end|>") -> ChatTemplate:
    return ChatTemplate(models.tokenizer_with(source, end=end), variables={})


TEMPLATE = template_of()


def opened(
    *script: str,
    seed: int = 0,
    template: ChatTemplate = TEMPLATE,
    max_tokens: int = 4096,
    max_conversations: int = 16,
) -> tuple[GatewaySession, SplittingGenerator]:
    """Return a session, and the engine behind it."""
    engine = SplittingGenerator(template, script, seed)
    sampling = sampling_of(engine, max_tokens, max_conversations)
    return GatewaySession("attempt", sampling, seed=7), engine


def sampling_of(
    engine: SplittingGenerator, max_tokens: int = 4096, max_conversations: int = 16
) -> Sampling:
    return Sampling(
        generator=engine,
        template=engine.template,
        limits=RolloutConfig(
            max_tokens=max_tokens, max_call_tokens=512, max_conversations=max_conversations
        ),
        temperature=1.0,
        read_calls=reader_of(engine.template),
    )


@cache
def reader_of(template: ChatTemplate) -> CallReader | None:
    return call_reader(template, ChatConfig())


def body(messages: Sequence[Any], **fields: Any) -> bytes:
    return msgspec.json.encode({"model": "policy", "messages": messages, **fields})


async def ask(
    session: GatewaySession, messages: Sequence[Any], *, is_retry: bool = False, **fields: Any
) -> dict[str, Any]:
    """Return the message that the policy adds, as a client gets it."""
    said = await session.chat(read_chat(body(messages, **fields)), is_retry=is_retry)
    found: dict[str, Any] = {"role": "assistant", "content": said.text}
    if said.calls:
        found |= {"content": said.text or None, "tool_calls": msgspec.to_builtins(said.calls)}
    return found


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def trained(session: GatewaySession) -> list[tuple[int, ...]]:
    """Return the runs of tokens that a learner trains on, conversation by conversation."""
    return [run for each in session.conversations() for run in _runs(each.tokens())]


def _runs(tokens: Tokens) -> list[tuple[int, ...]]:
    ids = columns.from_int32(tokens.token_ids)
    runs: list[list[int]] = []
    for at, mark in enumerate(tokens.mask):
        if mark and (at == 0 or not tokens.mask[at - 1]):
            runs.append([])
        if mark:
            runs[-1].append(ids[at])
    return [tuple(run) for run in runs]
