"""OpenAI's Responses at the policy's endpoint: the same conversation in another form."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from coevolve.gateway.gateway import Gateway
from coevolve.gateway.messages import RefusedError
from coevolve.gateway.responses import read_responses
from coevolve.gateway.session import GatewaySession
from tests.gateways import CUT, TEMPLATE, SplittingGenerator, sampling_of, trained, user

CALL = 'Look.<tool_call>{"name": "f", "arguments": {"a": [1]}}</tool_call>'
TOOL: Any = {
    "type": "function",
    "name": "f",
    "parameters": {"type": "object", "properties": {"a": {"type": "array"}}},
    "strict": False,
}
EVENTS = (
    *("response.created", "response.output_item.added", "response.output_item.done"),
    "response.completed",
)
"""The kinds of events that Codex reads."""


@asynccontextmanager
async def talking(
    *script: str,
) -> AsyncGenerator[tuple[AsyncOpenAI, GatewaySession, SplittingGenerator]]:
    engine = SplittingGenerator(TEMPLATE, script)
    async with (
        Gateway().session("attempt", sampling_of(engine), seed=1) as opened,
        AsyncOpenAI(base_url=opened.base_url, api_key="any", max_retries=0) as client,
    ):
        yield client, opened.session, engine


async def answer(client: AsyncOpenAI, *, is_streamed: bool, **asked: Any) -> Any:
    """Return a response."""
    if not is_streamed:
        return await client.responses.create(model="m", **asked)
    async with client.responses.stream(model="m", **asked) as stream:
        kinds = [event.type async for event in stream]
        last = await stream.get_final_response()
    assert set(EVENTS) <= set(kinds)
    assert (kinds[0], kinds[-1]) == (EVENTS[0], EVENTS[-1])
    return last


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_calls_and_their_answers_go_through_the_openai_package(*, is_streamed: bool) -> None:
    async with talking(CALL, "Done.", "Bye.") as (client, session, engine):
        history: list[Any] = [user("a")]
        asked: dict[str, Any] = {"tools": [TOOL], "instructions": "Be brief."}
        first = await answer(client, is_streamed=is_streamed, input=history, **asked)
        words, call = first.output
        assert first.output_text == words.content[0].text == "Look."
        assert (call.name, json.loads(call.arguments)) == ("f", {"a": [1]})
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "2"}
        history += [*first.output, result]
        second = await answer(client, is_streamed=is_streamed, input=history, **asked)
        assert (second.output_text, second.status) == ("Done.", "completed")
        assert second.usage.output_tokens == len(engine.sampled[1])
        history += [*(each.model_dump() for each in second.output), user("b")]
        third = await answer(client, is_streamed=is_streamed, input=history, **asked)
        assert third.output_text == "Bye."
        assert trained(session) == engine.sampled
        assert not session.counts.notes
    begun = TEMPLATE.decode(engine.requests[2].prompt_ids)
    assert "Be brief." in begun
    assert begun.count("Look.") == 1


async def test_a_raw_stream_has_the_text_in_its_deltas() -> None:
    async with talking("Hello.") as (client, _, _engine):
        stream = await client.responses.create(model="m", input="a", stream=True)
        events = [each async for each in stream]
        deltas = [each.delta for each in events if each.type == "response.output_text.delta"]
        assert "".join(deltas) == "Hello."
        assert [each.sequence_number for each in events] == list(range(len(events)))


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_message_that_is_cut_off_is_incomplete_and_goes_on(*, is_streamed: bool) -> None:
    async with talking(f"abcdef{CUT}", "ghi") as (client, session, engine):
        first = await answer(client, is_streamed=is_streamed, input="a", max_output_tokens=2)
        assert (first.status, first.incomplete_details.reason) == (
            "incomplete",
            "max_output_tokens",
        )
        assert first.usage.output_tokens == 2
        history = [user("a"), *first.output, user("b")]
        second = await answer(client, is_streamed=is_streamed, input=history)
        assert second.output_text == "ghi"
        assert trained(session) == engine.sampled


async def test_an_empty_message_and_calls_alone_come_back_as_the_same() -> None:
    bare = CALL.removeprefix("Look.")
    async with talking("", bare, "x") as (client, session, engine):
        history: list[Any] = [user("a")]
        for text in ("b", "c"):
            said = await client.responses.create(model="m", input=history, tools=[TOOL])
            history += [*said.output, user(text)]
        kinds = [getattr(each, "type", "") for each in history]
        assert kinds == ["", "message", "", "function_call", ""]
        await client.responses.create(model="m", input=history, tools=[TOOL])
        assert trained(session) == engine.sampled


async def test_both_forms_are_one_conversation() -> None:
    chat_tool: Any = {"type": "function", "function": {"name": "f", "parameters": {}}}
    tool: Any = {"type": "function", "name": "f", "parameters": {}}
    async with talking(CALL, "x") as (client, session, engine):
        first = await client.responses.create(model="m", input="a", tools=[tool])
        call: Any = first.output[1]
        history: list[Any] = [
            user("a"),
            {
                "role": "assistant",
                "content": "Look.",
                "tool_calls": [
                    {
                        "type": "function",
                        "id": call.call_id,
                        "function": {"name": "f", "arguments": '{ "a": [1.0] }'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": call.call_id, "content": "2"},
        ]
        create = client.chat.completions.create
        await create(model="m", messages=history, tools=[chat_tool])
        assert trained(session) == engine.sampled
        assert dict(session.counts.notes) == {"arguments written anew": 1}


async def test_what_would_be_stored_is_refused_and_named() -> None:
    async with talking("x") as (client, session, _):
        for name in ("previous_response_id", "conversation"):
            stored: dict[str, Any] = {name: "resp_1"}
            with pytest.raises(openai.BadRequestError, match=f"{name} needs to be left out"):
                await client.responses.create(model="m", input="a", **stored)
        assert not session.said
        said = await client.responses.create(
            model="m", input="a", store=True, previous_response_id=None, temperature=0.1
        )
        assert said.output_text == "x"
        assert dict(session.counts.ignored) == {"temperature": 1}


ITEMS: dict[str, Any] = {
    "no input": {},
    "a number": {"input": 5},
    "nothing": {"input": []},
    "a text as item": {"input": ["a"]},
    "no role": {"input": [{"content": "a"}]},
    "an unknown role": {"input": [{"role": "king", "content": "a"}]},
    "an unknown kind": {"input": [user("a"), {"type": "computer_call", "call_id": "1"}]},
    "a reference": {"input": [user("a"), {"type": "item_reference", "id": "msg_1"}]},
    "a call without name": {"input": [{"type": "function_call", "call_id": "1"}, user("a")]},
    "a call at the end": {
        "input": [user("a"), {"type": "function_call", "call_id": "1", "name": "f"}]
    },
    "an image": {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
    "no tokens": {"input": "a", "max_output_tokens": 0},
    "a schema": {"input": "a", "text": {"format": {"type": "json_schema"}}},
    "tools as text": {"input": "a", "tools": "f"},
    "a tool without name": {"input": "a", "tools": [{"type": "function"}]},
    "temperature NaN": b'{"input": "a", "temperature": NaN}',
    "deep": b'{"input": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "a background": {"input": "a", "background": True},
}


@pytest.mark.parametrize("kind", ITEMS)
def test_a_body_that_cannot_be_answered_is_refused_in_one_sentence(kind: str) -> None:
    given = ITEMS[kind]
    content = given if isinstance(given, bytes) else json.dumps(given).encode()
    with pytest.raises(RefusedError, match="need") as refused:
        read_responses(content)
    assert len(str(refused.value)) < 500


def test_tools_that_only_a_server_has_are_left_out_and_counted() -> None:
    given = {"input": "a", "tools": [TOOL, {"type": "web_search"}, {"type": "custom", "name": "g"}]}
    chat = read_responses(json.dumps(given).encode())
    assert [each["function"]["name"] for each in chat.tools] == ["f"]
    assert chat.ignored == ("tool 'custom'", "tool 'web_search'")
