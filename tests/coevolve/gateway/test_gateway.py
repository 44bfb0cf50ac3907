"""Clients at the policy's endpoint: the `openai` package, and those that send anything at all."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import msgspec
import openai
import pytest
from openai import AsyncOpenAI

from coevolve.gateway import http
from coevolve.gateway.conversations import AGAIN
from coevolve.gateway.gateway import GENERATE, Gateway, Opened
from coevolve.gateway.messages import MAX_TOOLS_BYTES
from tests.gateways import TEMPLATE, SplittingGenerator, body, sampling_of, trained, user


@asynccontextmanager
async def serving(*script: str) -> AsyncGenerator[tuple[Gateway, Opened, SplittingGenerator]]:
    gateway, engine = Gateway(), SplittingGenerator(TEMPLATE, script)
    async with gateway.session("attempt", sampling_of(engine), seed=1) as opened:
        yield gateway, opened, engine


def path_of(opened: Opened, path: str = "/chat/completions") -> str:
    return urlsplit(opened.base_url).path + path


async def send(opened: Opened, data: bytes) -> tuple[int, dict[str, Any]]:
    """Send bytes; return the status and the body of the answer."""
    url = urlsplit(opened.base_url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    try:
        writer.write(data)
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return int(head.split(b" ")[1]), json.loads(await reader.readexactly(length))
    finally:
        writer.close()


def post(opened: Opened, content: bytes, *headers: str, path: str = "") -> bytes:
    lines = [
        f"POST {path or path_of(opened)} HTTP/1.1",
        "host: x",
        f"content-length: {len(content)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


async def test_the_openai_package_talks_to_the_policy() -> None:
    async with serving("Hello.", "Again.") as (_, opened, engine):
        async with AsyncOpenAI(base_url=opened.base_url, api_key="any") as client:
            assert [each.id async for each in client.models.list()] == ["policy"]
            messages: list[Any] = [user("a")]
            first = await client.chat.completions.create(model="policy", messages=messages)
            messages += [first.choices[0].message, user("b")]
            second = await client.chat.completions.create(model="policy", messages=messages)
        assert first.choices[0].message.content == "Hello."
        assert second.choices[0].finish_reason == "stop"
        assert second.usage is not None
        assert second.usage.completion_tokens == len(engine.sampled[1])
        assert trained(opened.session) == engine.sampled


async def test_a_stream_is_the_same_message() -> None:
    async with serving("Hello there.", "b") as (_, opened, engine):
        async with AsyncOpenAI(base_url=opened.base_url, api_key="any") as client:
            create = client.chat.completions.create
            usage: Any = {"include_usage": True}
            chunks = [
                each
                async for each in await create(
                    model="m", messages=[user("a")], stream=True, stream_options=usage
                )
            ]
            text = "".join(each.choices[0].delta.content or "" for each in chunks[:-1])
            assert text == "Hello there."
            assert chunks[-1].usage
            messages: Any = [user("a"), {"role": "assistant", "content": text}, user("b")]
            await create(model="m", messages=messages)
        assert trained(opened.session) == engine.sampled


CALL = '<tool_call>{"name": "f", "arguments": {"a": [1]}}</tool_call>'


async def test_calls_go_through_the_openai_package_plain_and_as_a_stream() -> None:
    tools: Any = [TOOL]
    for is_streamed in (False, True):
        async with serving(CALL, "Done.") as (_, opened, engine):
            async with AsyncOpenAI(base_url=opened.base_url, api_key="any") as client:
                messages: list[Any] = [user("a")]
                chat = client.chat.completions
                if is_streamed:
                    stream = chat.stream(model="m", messages=messages, tools=tools)
                    async with stream as events:
                        found = await events.get_final_completion()
                else:
                    found = await chat.create(model="m", messages=messages, tools=tools)
                assert found.choices[0].finish_reason == "tool_calls"
                said = found.choices[0].message
                assert said.tool_calls
                call: Any = said.tool_calls[0]
                assert json.loads(call.function.arguments) == {"a": [1]}
                result = {"role": "tool", "tool_call_id": call.id, "content": "2"}
                back = said.model_dump() if is_streamed else said
                messages += [back, result]
                last = await chat.create(model="m", messages=messages, tools=tools)
                assert last.choices[0].message.content == "Done."
            assert trained(opened.session) == engine.sampled


async def test_a_token_works_as_a_key_and_as_a_part_of_the_path_until_the_attempt_ends() -> None:
    async with serving("a") as (_, opened, engine):
        root, token = opened.base_url.removesuffix("/v1").split("/s/")
        assert len(token) >= 22
        async with AsyncOpenAI(base_url=f"{root}/v1", api_key=token) as client:
            await client.chat.completions.create(model="m", messages=[user("a")])
        strangers = ["", "x", token[:-1], f"{token}x", token.upper()]
        for each in strangers:
            for path, key in (
                (f"/s/{each}/v1/chat/completions", ""),
                ("/v1/chat/completions", each),
                (f"/s/{each}/v1/models", ""),
            ):
                data = post(opened, body([user("a")]), f"authorization: Bearer {key}", path=path)
                status, answer = await send(opened, data)
                assert status == 401
                assert "token of an attempt" in answer["error"]["message"]
    assert (await send(opened, post(opened, body([user("a")]))))[0] == 401
    assert len(engine.requests) == 1


async def test_a_session_is_not_anothers() -> None:
    async with serving("a", "b") as (gateway, opened, engine):
        async with gateway.session("other", sampling_of(engine), seed=2) as other:
            assert other.base_url != opened.base_url
            await send(opened, post(opened, body([user("a")])))
            await send(other, post(other, body([user("b")])))
            assert [each.conversation_id for each in engine.requests] == ["attempt", "other"]
        assert (await send(other, post(other, body([user("b")]))))[0] == 401
        assert trained(opened.session) == engine.sampled[:1]


DEEP = b"[" * 10_000 + b"]" * 10_000
TOOL = {"type": "function", "function": {"name": "f"}}
CALLED = {"function": {"name": "f", "arguments": '{"a":' * 700 + "1" + "}" * 700}}
BODIES: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"{messages}",
    "no text": b"\xff\xfe",
    "a list": b"[]",
    "a text": b'"messages"',
    "deep": DEEP,
    "deep in a message": b'{"messages": ' + DEEP + b"}",
    "deep in a field of none": b'{"messages": [{"role": "user", "content": "a", "x": %s}]}' % DEEP,
    "a surrogate": b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
    "NUL": b'{"messages": [{"role": "user", "content": "a\\u0000b"}]}',
    "no messages": b"{}",
    "null messages": b'{"messages": null}',
    "empty messages": b'{"messages": []}',
    "messages of texts": b'{"messages": ["a"]}',
    "unknown role": body([{"role": "king", "content": "a"}]),
    "no role": body([{"content": "a"}]),
    "a number as content": body([{"role": "user", "content": 5}]),
    "an image": body([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]),
    "a part without text": body([{"role": "user", "content": [{"type": "text"}]}]),
    "a prefill": body([user("a"), {"role": "assistant", "content": "So"}]),
    "tools as text": body([user("a")], tools="f"),
    "a tool as text": body([user("a")], tools=["f"]),
    "a tool without function": body([user("a")], tools=[{"type": "function"}]),
    "a tool without name": body([user("a")], tools=[{"type": "function", "function": {}}]),
    "a tool with an empty name": body(
        [user("a")], tools=[{"type": "function", "function": {"name": ""}}]
    ),
    "large tools": body(
        [user("a")],
        tools=[{"type": "function", "function": {"name": "f", "description": "x" * 2 * 2**20}}],
    ),
    "calls without function": body([{"role": "assistant", "tool_calls": [{"id": "1"}]}, user("a")]),
    "a call of numbers": body([{"role": "assistant", "tool_calls": [1]}, user("a")]),
    "deep arguments": body([user("a"), {"role": "assistant", "tool_calls": [CALLED]}, user("b")]),
    "n": body([user("a")], n=2),
    "a schema": body([user("a")], response_format={"type": "json_schema"}),
    **{f"max_tokens {each}": body([user("a")], max_tokens=each) for each in (0, -1, 1.5, 1e99)},
    "max_tokens as text": body([user("a")], max_tokens="many"),
    "max_tokens NaN": b'{"messages": [{"role": "user", "content": "a"}], "max_tokens": NaN}',
    "an empty stop": body([user("a")], stop=""),
    "no stop": body([user("a")], stop=[]),
    "many stops": body([user("a")], stop=["a"] * 1000),
    "stops of numbers": body([user("a")], stop=[1, 2]),
    "temperature as text": body([user("a")], temperature="hot"),
    "temperature NaN": b'{"messages": [{"role": "user", "content": "a"}], "temperature": NaN}',
    "temperature below 0": body([user("a")], temperature=-0.1),
}


async def test_a_body_that_cannot_be_answered_gets_one_sentence_and_the_attempt_goes_on() -> None:
    assert len(BODIES["large tools"]) > MAX_TOOLS_BYTES
    async with serving("Hello.") as (_, opened, engine):
        for kind, content in BODIES.items():
            status, answer = await send(opened, post(opened, content))
            assert status == 400, kind
            sentence = answer["error"]["message"]
            assert "need" in sentence, (kind, sentence)
            assert "\n" not in sentence, (kind, sentence)
            assert len(sentence) < 500, (kind, sentence)
        assert not engine.requests
        assert (await send(opened, post(opened, body([user("a")], tools=[TOOL]))))[0] == 200
        assert opened.session.counts.refused.total() == len(BODIES)


async def test_other_paths_and_methods_are_refused() -> None:
    async with serving() as (_, opened, _engine):
        for path, status in (("/chat", 404), ("/embeddings", 404), ("/../v1/models", 404)):
            data = post(opened, body([user("a")]), path=path_of(opened, path))
            assert (await send(opened, data))[0] == status
        get = f"GET {path_of(opened)} HTTP/1.1\r\nhost: x\r\n\r\n".encode()
        assert (await send(opened, get))[0] == 405


async def test_requests_beyond_the_limits_of_http_are_refused() -> None:
    async with serving("a", "b") as (_, opened, engine):
        for size in (http.MAX_HEAD_BYTES, 2 * http.MAX_HEAD_BYTES):
            assert (await send(opened, post(opened, b"{}", f"x: {'y' * size}")))[0] == 431
        assert (await send(opened, post(opened, b"{}", "transfer-encoding: chunked")))[0] == 400
        assert (await send(opened, b"nonsense\r\n\r\n"))[0] == 400
        head = post(opened, b"").replace(b"content-length: 0", b"content-length: 67108865")
        assert (await send(opened, head))[0] == 413
        both = post(opened, b"", "content-length: 5")
        assert (await send(opened, both))[0] == 400
        content = body([user("a")])
        chunked = (
            f"POST {path_of(opened)} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        whole = chunked.encode() + b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content)
        assert (await send(opened, whole))[0] == 200
        assert len(engine.requests) == 1


async def test_an_engine_that_fails_is_no_answer() -> None:
    async with serving() as (_, opened, _engine):
        async with AsyncOpenAI(base_url=opened.base_url, api_key="any", max_retries=0) as client:
            with pytest.raises(openai.InternalServerError, match="the engine failed"):
                await client.chat.completions.create(model="m", messages=[user("a")])
        assert opened.session.error is not None


async def generate(opened: Opened, ids: Sequence[int], path: str = "", **sampling: Any) -> Any:
    asked = {"model": "m", "token_ids": ids, "sampling_params": {"logprobs": 1, **sampling}}
    root = urlsplit(opened.base_url).path.removesuffix("/v1")
    target = f"{root}{path or GENERATE}"
    return await send(opened, post(opened, msgspec.json.encode(asked), path=target))


async def test_token_ids_go_in_and_out_and_what_was_sampled_is_trained_once() -> None:
    async with serving("Hello.", "Again.", "Other.") as (_, opened, engine):
        first = TEMPLATE.opening([user("a")])
        status, answer = await generate(opened, first, max_tokens=100, top_p=0.5)
        assert status == 200
        (choice,) = answer["choices"]
        assert tuple(choice["token_ids"]) == engine.sampled[0]
        assert choice["finish_reason"] == "stop"
        told = [(each["token"], each["logprob"]) for each in choice["logprobs"]["content"]]
        assert told == [(f"token_id:{each}", -0.5) for each in engine.sampled[0]]
        second = (*first, *engine.sampled[0], *TEMPLATE.after([user("b")], engine.sampled[0]))
        await generate(opened, second, path=f"/v1{GENERATE}")
        assert engine.requests[1].prompt_ids == second
        assert trained(opened.session) == engine.sampled
        assert len(opened.session.conversations()) == 1
        await generate(opened, second)
        assert dict(opened.session.traffic().branches) == {AGAIN: 1}
        assert opened.session.traffic().ignored == {"top_p": 1}
        assert trained(opened.session) == engine.sampled
        assert "b" in opened.session.actions()[0].result


async def test_token_ids_continue_the_longest_known_conversation() -> None:
    async with serving("Hello.", "Again.", "Hello.", "More.") as (_, opened, engine):
        first = TEMPLATE.opening([user("a")])
        await generate(opened, first)
        second = (*first, *engine.sampled[0], *TEMPLATE.after([user("b")], engine.sampled[0]))
        await generate(opened, second)
        await generate(opened, first)
        third = (*second, *engine.sampled[1], *TEMPLATE.after([user("c")], engine.sampled[1]))
        await generate(opened, third)
        hello, again, other, more = engine.sampled
        assert trained(opened.session) == [hello, again, more, other]


async def test_token_ids_that_the_policy_does_not_have_are_refused() -> None:
    async with serving() as (_, opened, engine):
        long = [1] * 5000
        for ids in ([], [-1], [TEMPLATE.vocabulary], [1.5], ["a"], None, [2**70], long):
            status, answer = await generate(opened, ids)  # pyright: ignore[reportArgumentType]
            assert (status, "need" in answer["error"]["message"]) == (400, True), ids
        refused: list[dict[str, Any]] = [{"n": 2}, {"stop": ["a"]}, {"max_tokens": 0}]
        for each in refused:
            assert (await generate(opened, [1], **each))[0] == 400
        assert not engine.requests
        assert opened.session.is_full
