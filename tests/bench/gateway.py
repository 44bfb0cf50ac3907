"""Measures what a message costs at the policy's endpoint, and what attempts leave in memory.

*CPU of a message* is that of the thread that answers, with an engine that costs nothing: of the
gateway, whose client is in another thread, beside the direct path, which feeds the same messages to
the chat template, and reads the same calls. Both alternate, and the table shows medians of rounds.
*Memory* is the process's resident set after a number of attempts, once the last has ended.
"""

import asyncio
import gc
import http.client
import json
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import msgspec
import psutil
from rich.table import Table

from coevolve.gateway.gateway import Gateway
from coevolve.rollouts.transcript import Transcript
from protocols.generation import Generation, GenerationRequest
from tests.bench import output
from tests.gateways import TEMPLATE, SplittingGenerator, reader_of, sampling_of, user

TOKENS = 10_000
CONVERSATIONS = 8
CALL = '<tool_call>\n{"name": "tool_3", "arguments": {"city": "Paris"}}\n</tool_call>'
WORDS = "sunny, 21 degrees, wind from the west; "
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": f"tool_{number}",
            "description": "Tell the weather of a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
    for number in range(20)
]


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """CPU of a message, in conversations of one length."""

    messages: int
    tokens: int
    direct_ms: float
    gateway_ms: float


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured."""

    costs: tuple[Costs, ...]
    memory_mb: dict[int, float]
    """Number of attempts -> resident set after them."""


class FreeGenerator(SplittingGenerator):
    """Always makes the same call."""

    def __init__(self) -> None:
        super().__init__(TEMPLATE, ())
        ids = (*TEMPLATE.encode(CALL), TEMPLATE.stop_ids[0])
        count = len(ids)
        self._said = Generation(
            token_ids=ids, logprobs=(-0.1,) * count, versions=(0,) * count, stopped=True
        )

    async def generate(self, request: GenerationRequest) -> Generation:
        return self._said


def main(arguments: list[str]) -> None:
    """Measure, and print a table or JSON."""
    parser = output.parser_of("gateway", __doc__)
    parser.add_argument("--messages", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--attempts", type=int, nargs="+", default=[1000, 10_000])
    options = parser.parse_args(arguments)
    figures = Figures(
        costs=tuple(asyncio.run(_costs(each, options.rounds)) for each in options.messages),
        memory_mb=asyncio.run(_memory(options.attempts)),
    )
    output.show(figures, _table, as_json=options.json)


def _table(figures: Figures) -> Table:
    rows = [
        (
            f"CPU of a message, {each.messages} messages, {output.number(each.tokens)} tokens, ms",
            output.number(each.direct_ms),
            output.number(each.gateway_ms),
            output.number(each.gateway_ms / each.direct_ms),
        )
        for each in figures.costs
    ]
    rows += [
        (f"MB after {output.number(count)} attempts", "", output.number(each), "")
        for count, each in figures.memory_mb.items()
    ]
    return output.table("The policy's endpoint", ("", "direct", "gateway", "times"), rows)


async def _costs(messages: int, rounds: int) -> Costs:
    result = _result(messages)
    direct, through = list[float](), list[float]()
    tokens = 0
    for _ in range(rounds + 1):
        seconds, tokens = await _spent(lambda: _direct(messages, result))
        direct.append(seconds)
        seconds, same = await _spent(lambda: _through(messages, result))
        through.append(seconds)
        assert tokens == same
    scale = 1e3 / (messages * CONVERSATIONS)
    return Costs(
        messages=messages,
        tokens=tokens,
        direct_ms=scale * median(direct[1:]),
        gateway_ms=scale * median(through[1:]),
    )


def _result(messages: int) -> str:
    """Return the result of a call, with which a conversation has `TOKENS`."""
    room = TOKENS - len(TEMPLATE.opening([user("Weather?")], TOOLS))
    each = room // messages - len(TEMPLATE.encode(CALL)) - 16
    return TEMPLATE.decode(TEMPLATE.encode(WORDS * each)[:each])


async def _spent(work: Callable[[], Awaitable[int]]) -> tuple[float, int]:
    """Return the CPU seconds of this thread, and the tokens of a conversation."""
    gc.collect()
    began_s = time.thread_time()
    tokens = await work()
    return time.thread_time() - began_s, tokens


async def _direct(messages: int, result: str) -> int:
    engine, read = FreeGenerator(), reader_of(TEMPLATE)
    assert read is not None
    transcript = Transcript()
    for _ in range(CONVERSATIONS):
        transcript = Transcript()
        fed = TEMPLATE.opening([user("Weather?")], TOOLS)
        for _ in range(messages):
            transcript.feed(fed)
            request = GenerationRequest(
                conversation_id="direct",
                prompt_ids=tuple(transcript.token_ids),
                max_tokens=512,
                stop_ids=TEMPLATE.stop_ids,
                temperature=1.0,
                seed=1,
            )
            said = await engine.generate(request)
            transcript.add(said)
            read(TEMPLATE.said(said.token_ids), TOOLS)
            fed = TEMPLATE.after([{"role": "tool", "content": result}], said.token_ids)
    return len(transcript.token_ids)


async def _through(messages: int, result: str) -> int:
    gateway, sampling = Gateway(), sampling_of(FreeGenerator(), 2 * TOKENS)
    tokens = 0
    for _ in range(CONVERSATIONS):
        async with gateway.session("bench", sampling, seed=1) as opened:
            await asyncio.to_thread(_talk, opened.base_url, messages, result)
            (transcript,) = opened.session.conversations()
            tokens = len(transcript.token_ids)
    return tokens


def _talk(base_url: str, messages: int, result: str) -> None:
    """Talk as a client does, from the beginning in each request."""
    url = urlsplit(base_url)
    link = http.client.HTTPConnection(str(url.hostname), url.port)
    history: list[Any] = [user("Weather?")]
    for _ in range(messages):
        body = json.dumps({"model": "policy", "messages": history, "tools": TOOLS})
        link.request("POST", f"{url.path}/chat/completions", body)
        said = json.loads(link.getresponse().read())["choices"][0]["message"]
        (call,) = said["tool_calls"]
        history += [said, {"role": "tool", "tool_call_id": call["id"], "content": result}]
    link.close()


async def _memory(attempts: list[int]) -> dict[int, float]:
    gateway, sampling = Gateway(), sampling_of(FreeGenerator(), TOKENS)
    found: dict[int, float] = {}
    for number in range(1, max(attempts) + 1):
        async with gateway.session(f"bench-{number}", sampling, seed=number) as opened:
            await asyncio.to_thread(_talk, opened.base_url, 2, WORDS)
        if number in attempts:
            gc.collect()
            found[number] = psutil.Process().memory_info().rss / 1e6
    return found
