"""What a client sends back continues on the sampled tokens, or is another conversation."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.environments.tools.chat.named_calls import with_tools
from coevolve.gateway.messages import RefusedError
from coevolve.gateway.session import CROWDED, TOO_LONG, EndedError, GatewaySession
from protocols.config import ChatConfig
from protocols.errors import GeneratorError
from protocols.generation import Generation, GenerationRequest
from tests.coevolve.environments.tools.chat import models
from tests.gateways import (
    CUT,
    TEMPLATE,
    SplittingGenerator,
    ask,
    opened,
    sampling_of,
    template_of,
    trained,
    user,
)

TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)
"""What a client may write. The policy may write NUL, too."""

SAID = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20).filter(
    lambda text: not any(word in text for word in (*models.SPECIAL, CUT))
)


TEMPLATES = {
    "tags": TEMPLATE,
    "thinking": template_of(models.THINKING),
    "json": template_of(models.JSON, end="<|eot_id|>"),
}


@pytest.mark.parametrize("kind", TEMPLATES)
@settings(max_examples=40, deadline=None)
@given(
    heard=st.lists(TEXT, min_size=1, max_size=4),
    script=st.lists(SAID, min_size=4, max_size=4),
    cut=st.lists(st.booleans(), min_size=4, max_size=4),
    seed=st.integers(0, 99),
)
def test_the_tokens_trained_are_those_sampled(
    kind: str, heard: list[str], script: list[str], cut: list[bool], seed: int
) -> None:
    said = [text + CUT * is_cut for text, is_cut in zip(script, cut, strict=True)]
    template = TEMPLATES[kind]
    session, engine = opened(*said, seed=seed, template=template)

    async def talk() -> None:
        messages: list[dict[str, Any]] = []
        for text in heard:
            messages.append(user(text))
            messages.append(await ask(session, messages))

    asyncio.run(talk())
    assert trained(session) == engine.sampled
    for before, after in zip(engine.requests, engine.requests[1:], strict=False):
        sampled = engine.sampled[engine.requests.index(before)]
        begun = (*before.prompt_ids, *sampled)
        assert after.prompt_ids[: len(begun)] == begun
        end = after.prompt_ids[len(begun)]
        assert (end == template.stop_ids[0]) == (sampled[-1] != template.stop_ids[0])
    (conversation,) = session.conversations()
    assert tuple(conversation.token_ids) == (*engine.requests[-1].prompt_ids, *engine.sampled[-1])


PARTS = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo."}]
SAME: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "exact": ({}, ()),
    "null fields": ({"refusal": None, "annotations": None, "audio": None, "parsed": None}, ()),
    "parts": ({"content": PARTS}, ()),
    "unknown fields": ({"index": 0, "status": "completed", "cache_control": {"type": "x"}}, ()),
    "no calls": ({"tool_calls": []}, ()),
    "reasoning": ({"reasoning_content": "So."}, ()),
    "white space": ({"content": " Hello.\n"}, ("white space",)),
    "parts and white space": ({"content": [{"type": "text", "text": "Hello. "}]}, ("white space",)),
}


@pytest.mark.parametrize("kind", SAME)
async def test_a_message_that_means_the_same_continues(kind: str) -> None:
    changed, notes = SAME[kind]
    session, engine = opened("Hello.", "Again.")
    first = await ask(session, [user("a")])
    await ask(session, [user("a"), first | changed, user("b")])
    assert trained(session) == engine.sampled
    assert tuple(session.counts.notes) == notes
    assert len(session.conversations()) == 1


@pytest.mark.parametrize("content", [None, "", [], "absent"])
async def test_an_empty_message_is_known_in_each_form(content: Any) -> None:
    session, engine = opened("", "b")
    said = await ask(session, [user("a")])
    back = {"role": "assistant", "content": content}
    if content == "absent":
        del back["content"]
    assert said["content"] == ""
    await ask(session, [user("a"), back, user("b")])
    assert trained(session) == engine.sampled


async def test_thinking_that_a_client_drops_or_splits_off_stays_in_the_context() -> None:
    for back in ("4.", "<think>\n so  </think> 4."):
        session, engine = opened("<think>so</think>4.", "b")
        await ask(session, [user("a")])
        await ask(session, [user("a"), {"role": "assistant", "content": back}, user("b")])
        assert trained(session) == engine.sampled
        assert sum(session.counts.notes.values()) == 1


async def test_a_stop_string_ends_the_sampled_tokens_and_may_come_back() -> None:
    for back in ("one ", "one", "one END", "one  END"):
        session, engine = opened("one END two", "b", seed=4)
        said = await ask(session, [user("a")], stop=["END", "never"])
        assert said["content"] == "one "
        await ask(session, [user("a"), {"role": "assistant", "content": back}, user("b")])
        first, second = trained(session)
        assert first == engine.sampled[0][: len(first)]
        assert "END" in TEMPLATE.decode(first)
        assert "END" not in TEMPLATE.decode(first[:-1])
        assert second == engine.sampled[1]


async def test_roles_and_histories_that_clients_write_anew_are_the_same() -> None:
    session, engine = opened("x", "y")
    first = await ask(session, [{"role": "system", "content": "s"}, user("a")])
    system = {"role": "developer", "content": [{"type": "text", "text": "s"}], "name": None}
    await ask(session, [system, user("a"), first, user("b")])
    assert trained(session) == engine.sampled
    assert len(session.conversations()) == 1


TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("get", "put")
]
CALLS = """Let me see.
<tool_call>
{"name": "get", "arguments": {"a": 1.0, "b": true}}
</tool_call>
<tool_call>
{"name": "put", "arguments": {"text": "\u00fc <|im_end|>"}}
</tool_call>"""
"""A message with words and two calls, as the policy writes it."""


def answers(*texts: str, said: dict[str, Any]) -> list[dict[str, Any]]:
    ids = [call["id"] for call in said["tool_calls"]]
    return [
        {"role": "tool", "content": text, "tool_call_id": name}
        for text, name in zip(texts, ids, strict=True)
    ]


async def test_calls_are_read_and_continue_on_their_tokens() -> None:
    session, engine = opened(CALLS, "Done.")
    said = await ask(session, [user("a")], tools=TOOLS)
    assert said["content"] == "Let me see."
    functions = [call["function"] for call in said["tool_calls"]]
    assert [each["name"] for each in functions] == ["get", "put"]
    assert json.loads(functions[0]["arguments"]) == {"a": 1.0, "b": True}
    messages = [user("a"), said, *answers("one", "two", said=said)]
    assert (await ask(session, messages, tools=TOOLS))["content"] == "Done."
    assert trained(session) == engine.sampled
    assert not session.counts.notes


def rewritten(said: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a message with another first call."""
    first, second = said["tool_calls"]
    function = first["function"] | {
        name: each for name, each in changes.items() if name in ("name", "arguments")
    }
    changed = first | {"function": function, "id": changes.get("id", first["id"])}
    return said | {"tool_calls": [changed, second]}


REWRITTEN: dict[str, tuple[dict[str, Any], str]] = {
    "spaces": ({"arguments": '{"a": 1.0,  "b": true}'}, "arguments written anew"),
    "other order": ({"arguments": '{"b":true,"a":1.0}'}, "arguments written anew"),
    "1e0": ({"arguments": '{"a":1e0,"b":true}'}, "arguments written anew"),
    "1": ({"arguments": '{"a":1,"b":true}'}, "arguments written anew"),
    "an object": ({"arguments": {"a": 1, "b": True}}, "arguments written anew"),
    "another id": ({"id": "call_0"}, "call ids replaced"),
}


@pytest.mark.parametrize("kind", REWRITTEN)
async def test_calls_of_the_same_value_are_the_same(kind: str) -> None:
    changes, note = REWRITTEN[kind]
    session, engine = opened(CALLS, "Done.")
    said = await ask(session, [user("a")], tools=TOOLS)
    back = rewritten(said, **changes) | {"content": None if kind == "1" else said["content"]}
    await ask(session, [user("a"), back, *answers("1", "2", said=said)], tools=TOOLS)
    assert trained(session) == engine.sampled
    assert note in session.counts.notes
    assert ("words beside calls dropped" in session.counts.notes) == (kind == "1")


def parsed(said: dict[str, Any]) -> dict[str, Any]:
    """Return a message as `openai`'s helper for streams keeps it."""
    calls = [
        {**each, "index": at, "function": each["function"] | {"parsed_arguments": None}}
        for at, each in enumerate(said["tool_calls"])
    ]
    return said | {"tool_calls": calls, "parsed": None, "refusal": None}


def anew(said: dict[str, Any]) -> dict[str, Any]:
    """Return a message as pydantic-ai writes it: without words, with calls of its own spelling."""
    calls = [
        each | {"function": each["function"] | {"arguments": json.dumps(json.loads(arguments))}}
        for each in said["tool_calls"]
        for arguments in [each["function"]["arguments"]]
    ]
    return said | {"content": None, "tool_calls": calls}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def found(said: dict[str, Any]) -> list[dict[str, Any]]:
    return answers("1", "2", said=said)


Sent = Callable[[dict[str, Any]], list[dict[str, Any]]]
"""Returns the second request of a client, from the message that it got."""

CLIENTS: dict[str, tuple[Sent, int, str, set[str]]] = {
    "openai, streamed": (lambda said: [user("a"), parsed(said), *found(said)], 2, "", set()),
    "pydantic-ai": (
        lambda said: [user("a"), anew(said), *found(said), system("Return text.")],
        2,
        "",
        {"arguments written anew", "words beside calls dropped"},
    ),
    "pydantic-ai, empty answer": (
        lambda _: [user("a"), system("Please return text or call a tool.")],
        2,
        "a message of the policy was left out",
        set(),
    ),
    "langchain, summary": (
        lambda said: [system("s"), user("Here is a summary."), *found(said)[1:]],
        2,
        "another opening",
        set(),
    ),
    "openai-agents, handoff": (
        lambda said: [system("You help."), user("a"), said, *found(said)],
        1,
        "other tools",
        set(),
    ),
    "smolagents, failed step": (
        lambda _: [user("a\nError: no such tool. Now retry.")],
        2,
        "another opening",
        set(),
    ),
}
"""What clients send after a message with calls: messages, number of tools, why another conversation
begins if one does, and what was changed harmlessly."""


@pytest.mark.parametrize("client", CLIENTS)
async def test_requests_in_the_forms_of_clients(client: str) -> None:
    sent, tools, reason, notes = CLIENTS[client]
    session, engine = opened(CALLS, "Done.", "So.")
    said = await ask(session, [user("a")], tools=TOOLS)
    messages = sent(said)
    last = await ask(session, messages, tools=TOOLS[:tools])
    await ask(session, [*messages, last, user("b")], tools=TOOLS[:tools])
    assert session.traffic().branches == ({reason: 1} if reason else {})
    assert session.counts.notes.keys() == notes
    assert trained(session) == engine.sampled
    assert all("Done." in TEMPLATE.decode(each.prompt_ids) for each in engine.requests[2:])


async def test_calls_that_come_back_as_text_are_known_by_their_ids() -> None:
    session, engine = opened(CALLS, "Done.")
    said = await ask(session, [user("a")], tools=TOOLS)
    text = f"Calling tools:\n{said['tool_calls']!r}"
    back = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    await ask(session, [user("a"), back, user("Observation: 1")], tools=TOOLS)
    assert trained(session) == engine.sampled
    assert tuple(session.counts.notes) == ("calls as text",)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"arguments": '{"a":1.0,"b":1}'}, "arguments of a call were changed"),
        ({"arguments": '{"a":2,"b":true}'}, "arguments of a call were changed"),
        ({"arguments": '{"a":1.0}'}, "arguments of a call were changed"),
        ({"arguments": "{"}, "arguments of a call were changed"),
        ({"name": "put"}, "name of a call was changed"),
    ],
)
async def test_a_call_that_a_client_corrects_is_another_one(
    changes: dict[str, Any], reason: str
) -> None:
    session, engine = opened(CALLS, "Done.")
    said = await ask(session, [user("a")], tools=TOOLS)
    back = rewritten(said, **changes)
    await ask(session, [user("a"), back, *answers("1", "2", said=said)], tools=TOOLS)
    assert [reason in each for each in session.traffic().branches] == [True]
    assert session.traffic().broken_tokens == len(engine.sampled[0])
    assert trained(session) == engine.sampled


async def test_fewer_calls_are_another_message() -> None:
    session, _ = opened(CALLS, "Done.")
    said = await ask(session, [user("a")], tools=TOOLS)
    back = said | {"tool_calls": said["tool_calls"][:1]}
    await ask(session, [user("a"), back, user("b")], tools=TOOLS)
    assert session.traffic().branches == {"1 calls came back in place of 2": 1}


async def test_answers_of_parallel_calls_are_read_in_the_order_of_the_calls() -> None:
    prompts: list[tuple[int, ...]] = []
    for is_reversed in (False, True):
        session, engine = opened(CALLS, "Done.", "More.")
        said = await ask(session, [user("a")], tools=TOOLS)
        found = answers("one", "two", said=said)
        messages = [user("a"), said, *(found[::-1] if is_reversed else found)]
        last = await ask(session, messages, tools=TOOLS)
        await ask(session, [user("a"), said, *found, last, user("b")], tools=TOOLS)
        prompts.append(engine.requests[1].prompt_ids)
        text = TEMPLATE.decode(prompts[-1])
        assert text.index("one") < text.index("two")
        assert trained(session) == engine.sampled
    assert prompts[0][-20:] == prompts[1][-20:]


BROKEN = [
    '<tool_call>{"name": "get", "arguments": {"a": </tool_call>',
    '<tool_call>{"name": "get-it", "arguments": {}}</tool_call>',
    '<tool_call>{"name": "get"}</tool_call>',
    "<tool_call>" + "[" * 5000,
]


@pytest.mark.parametrize("text", BROKEN)
async def test_a_call_that_cannot_be_read_stays_text(text: str) -> None:
    session, engine = opened(text[:400], "b")
    said = await ask(session, [user("a")], tools=TOOLS)
    assert said == {"role": "assistant", "content": text[:400]}
    assert session.counts.notes["call that cannot be read"] == 1
    await ask(session, [user("a"), said, user("b")], tools=TOOLS)
    assert trained(session) == engine.sampled


async def test_calls_are_text_where_the_client_wants_none() -> None:
    wants: list[dict[str, Any]] = [{"tools": TOOLS, "tool_choice": "none"}, {}]
    for fields in wants:
        session, _ = opened(CALLS)
        assert "tool_calls" not in await ask(session, [user("a")], **fields)


async def test_a_template_without_tools_refuses_them() -> None:
    session, engine = opened("a", template=template_of(models.PLAIN))
    with pytest.raises(RefusedError, match="chat template lists them"):
        await ask(session, [user("a")], tools=TOOLS)
    assert not engine.requests


FRUIT = [
    {
        "type": "function",
        "function": {
            "name": "price",
            "description": "Price of a fruit.",
            "parameters": {"properties": {"fruit": {"type": "string"}, "day": {}}},
        },
    }
]
LISTED = {"signatures": "price(fruit: str = None, day: Any = None)", "prompt": '"name": "price"'}


@pytest.mark.parametrize("form", LISTED)
async def test_tools_calls_and_answers_are_words_where_the_run_says_so(form: Any) -> None:
    calls = "[price('fig', day=2), price(fruit='pear')]"
    engine = SplittingGenerator(
        template_of(models.PLAIN), [calls, "Both.", "x", "price('a', 2, 3)"]
    )
    sampling = with_tools(sampling_of(engine), ChatConfig(tools=form))
    session = GatewaySession("attempt", sampling, seed=7)
    first = [{"role": "system", "content": "Sell."}, user("What are they?")]
    said = await ask(session, first, tools=FRUIT)
    given = [json.loads(each["function"]["arguments"]) for each in said["tool_calls"]]
    assert given == [{"fruit": "fig", "day": 2}, {"fruit": "pear"}]
    assert said["content"] is None
    further = [said, *answers("3", "4", said=said)]
    await ask(session, [*first, *further], tools=FRUIT)
    opening, heard = (sampling.template.decode(each.prompt_ids) for each in engine.requests)
    assert opening.startswith("<|im_start|>system\nSell.\n\nYou carry out")
    assert LISTED[form] in opening
    assert heard.startswith(f"{opening}{calls}<|im_end|>\n<|im_start|>user\nThe answers")
    assert heard.endswith("in order:\n3\n4<|im_end|>\n<|im_start|>assistant\n")
    await ask(session, [user("Other."), *further], tools=FRUIT)
    assert "[price(fruit='fig', day=2), price(" in sampling.template.decode(
        engine.requests[2].prompt_ids
    )
    assert "tool_calls" not in await ask(session, [user("b")], tools=FRUIT)
    assert trained(session) == engine.sampled


async def test_each_form_of_calls_is_read() -> None:
    said = {
        models.PYTHONIC: "[get(a=1, b=[True, None])]",
        models.JSON: '{"name": "get", "parameters": {"a": 1, "b": [true, null]}}',
        models.THINKING: "<think>\nso</think>\n\n"
        '<tool_call>{"name": "get", "arguments": {"a": 1, "b": [true, null]}}</tool_call>',
    }
    for source, text in said.items():
        end = "<|eot_id|>" if "eot_id" in source else "<|im_end|>"
        session, engine = opened(text, "b", template=template_of(source, end=end))
        found = await ask(session, [user("a")], tools=TOOLS)
        (call,) = found["tool_calls"]
        assert json.loads(call["function"]["arguments"]) == {"a": 1, "b": [True, None]}
        messages = [user("a"), found, *answers("1", said=found)]
        await ask(session, messages, tools=TOOLS)
        assert trained(session) == engine.sampled


OTHER: dict[str, tuple[list[dict[str, Any]], str]] = {
    "edited text": ([user("a"), {"role": "assistant", "content": "Bye."}, user("b")], "edited"),
    "edited history": ([user("A"), {"role": "assistant", "content": "Hello."}, user("b")], "edit"),
    "left out": ([user("a"), user("b")], "was left out"),
    "left out, longer": ([user("a"), user("b"), user("c")], "was left out"),
    "the same again": ([user("a")], "the same request again"),
    "another opening": ([user("Sum it up."), user("b"), user("c")], "another opening"),
    "calls": (
        [
            user("a"),
            {
                "role": "assistant",
                "content": "Hello.",
                "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}],
            },
            user("b"),
        ],
        "1 calls came back in place of 0",
    ),
    "nobody sampled": (
        [
            user("a"),
            {"role": "assistant", "content": "Hello."},
            {"role": "assistant", "content": "Mine."},
            user("b"),
        ],
        "nobody sampled",
    ),
}


@pytest.mark.parametrize("kind", OTHER)
async def test_another_conversation_begins_anew_and_both_are_trained(kind: str) -> None:
    messages, reason = OTHER[kind]
    session, engine = opened("Hello.", "Second.", "Third.", "Fourth.")
    first = await ask(session, [user("a")])
    second = await ask(session, messages)
    assert [reason in each for each in session.traffic().branches] == [True]
    await ask(session, [user("a"), first, user("on")])
    if kind != "the same again":
        assert second["content"] == "Second."
        await ask(session, [*messages, second, user("on")])
    runs = trained(session)
    assert sorted(runs) == sorted(engine.sampled)
    assert [
        each.token_ids[: len(engine.requests[0].prompt_ids)] for each in session.conversations()
    ]
    assert len(session.conversations()) == 2
    is_edit = "edit" in reason or "in place of" in reason
    assert (session.traffic().broken_tokens > 0) == is_edit


async def test_other_tools_are_another_conversation() -> None:
    session, engine = opened("Hello.", "Again.")
    first = await ask(session, [user("a")], tools=TOOLS)
    await ask(session, [user("a"), first, user("b")])
    assert session.traffic().branches == {"other tools": 1}
    assert not session.traffic().broken_tokens
    assert trained(session) == engine.sampled


async def test_a_conversation_that_forks_shares_its_beginning_which_is_trained_once() -> None:
    session, engine = opened("One.", "Two.", "Left.", "Right.")
    first = await ask(session, [user("a")])
    second = await ask(session, [user("a"), first, user("b")])
    await ask(session, [user("a"), first, user("b"), second, user("left")])
    await ask(session, [user("a"), first, user("b"), second, user("right")])
    left, right = (each.tokens() for each in session.conversations())
    one, two, third, fourth = engine.sampled
    assert (left.sampled, right.sampled) == (len(one + two + third), len(fourth))
    shared = (*engine.requests[1].prompt_ids, *two)
    for each in session.conversations():
        assert tuple(each.token_ids[: len(shared)]) == shared
    assert trained(session) == engine.sampled
    assert session.traffic().branches == {"another continuation": 1}
    assert engine.requests[3].seed != engine.requests[2].seed


async def test_a_message_that_is_left_out_stays_trained_and_the_rest_goes_on() -> None:
    session, engine = opened("One.", "no call", "Two.", "Three.")
    first = await ask(session, [user("a")])
    await ask(session, [user("a"), first, user("b")])
    messages = [user("a"), first, user("b"), user("Format error.")]
    third = await ask(session, messages)
    await ask(session, [*messages, third, user("c")])
    assert session.traffic().branches == {"a message of the policy was left out": 1}
    assert [each.tokens().sampled for each in session.conversations()] == [
        len(engine.sampled[0] + engine.sampled[1]),
        len(engine.sampled[2] + engine.sampled[3]),
    ]
    assert trained(session) == engine.sampled


async def test_the_same_request_again_gets_another_sample_and_a_retry_the_newest() -> None:
    session, engine = opened("One.", "Two.", "Three.")
    said = [await ask(session, [user("a")]) for _ in range(3)]
    assert [each["content"] for each in said] == ["One.", "Two.", "Three."]
    assert (await ask(session, [user("a")], is_retry=True))["content"] == "Three."
    assert len({each.seed for each in engine.requests}) == 3
    assert session.traffic().branches == {"the same request again": 2}
    assert session.traffic().retries == 1
    assert trained(session) == engine.sampled


async def test_of_messages_of_the_same_text_the_newest_goes_on() -> None:
    session, engine = opened("Same.", "Same.", "On.")
    await ask(session, [user("a")])
    said = await ask(session, [user("a")])
    await ask(session, [user("a"), said, user("b")])
    older, newer = session.conversations()
    assert older.tokens().sampled == len(engine.sampled[0])
    assert newer.tokens().sampled == len(engine.sampled[1] + engine.sampled[2])
    assert session.traffic().notes == {"several messages of the same text": 1}


async def test_helpers_at_the_same_time_have_conversations_of_their_own() -> None:
    session, engine = opened("One.", *(f"Helper {n}." for n in range(4)), "Sum.")
    first = await ask(session, [user("a")])
    opening = [user("a"), first]
    said = await asyncio.gather(*(ask(session, [*opening, user(f"part {n}")]) for n in range(4)))
    assert len({each.conversation_id for each in engine.requests}) == 4
    await ask(session, [*opening, user("part 2"), said[2], user("sum")])
    assert len(session.conversations()) == 4
    assert sorted(trained(session)) == sorted(engine.sampled)
    await session.end()
    assert {*engine.released} == {each.conversation_id for each in engine.requests}


async def test_an_attempt_with_too_many_conversations_has_ended() -> None:
    session, engine = opened("One.", "Two.", "never", max_conversations=2)
    first = await ask(session, [user("a")])
    await ask(session, [user("b")])
    for messages in ([user("c")], [user("a"), first, user("on")]):
        with pytest.raises(RefusedError, match="at most 2 conversations") as refused:
            await ask(session, messages)
        assert refused.value.code == CROWDED
    assert session.is_crowded
    assert trained(session) == engine.sampled


async def test_a_request_that_is_refused_begins_no_conversation() -> None:
    session, engine = opened("One.", "Two.", max_tokens=64, max_conversations=2)
    await ask(session, [user("a")])
    for n in range(3):
        with pytest.raises(RefusedError, match="within 64 tokens"):
            await ask(session, [user(f"{n} " * 80)])
    await ask(session, [user("b")])
    assert session.traffic().branches == {"another opening": 1}
    assert trained(session) == engine.sampled


async def test_a_request_that_is_sent_again_is_answered_once() -> None:
    session, engine = opened("Hello.", "b")
    first, second = await asyncio.gather(*(ask(session, [user("a")]) for _ in range(2)))
    assert first == second == await ask(session, [user("a")], is_retry=True)
    assert session.counts.retries == 2
    await ask(session, [user("a"), first, user("b")])
    assert trained(session) == engine.sampled
    assert len(engine.requests) == 2


async def test_a_request_beside_another_one_is_another_conversation() -> None:
    session, engine = opened("Hello.", "b")
    first = asyncio.ensure_future(ask(session, [user("a")]))
    await asyncio.sleep(0)
    await asyncio.gather(first, ask(session, [user("b")]))
    assert session.traffic().branches == {"another opening": 1}
    assert trained(session) == engine.sampled


async def test_a_client_that_hangs_up_undoes_nothing() -> None:
    session, engine = opened("Hello.", "b")
    asking = asyncio.ensure_future(ask(session, [user("a")]))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.sleep(0.1)
    assert (await ask(session, [user("a")]))["content"] == "Hello."
    assert (await ask(session, [user("a")], is_retry=True))["content"] == "Hello."
    assert trained(session) == engine.sampled
    assert (await ask(session, [user("a")]))["content"] == "b"


async def test_a_conversation_without_room_is_refused_and_marked() -> None:
    session, engine = opened("Hello.", max_tokens=64)
    first = await ask(session, [user("a")])
    for text in ("word " * 80, "x" * 100_000):
        with pytest.raises(RefusedError, match="within 64 tokens") as refused:
            await ask(session, [user("a"), first, user(text)])
        assert refused.value.code == TOO_LONG
    assert session.is_full
    assert trained(session) == engine.sampled


async def test_large_tools_and_bodies_are_too_long_before_they_are_read() -> None:
    session, engine = opened("Hello.", max_tokens=64)
    large = {"type": "function", "function": {"name": "f", "description": "x" * 20_000}}
    with pytest.raises(RefusedError, match="within 64 tokens"):
        await ask(session, [user("a")], tools=[large])
    session.check_size(4 << 20)
    with pytest.raises(RefusedError, match="a body of 8388608 bytes"):
        session.check_size(8 << 20)
    assert not engine.requests


async def test_a_large_message_is_read_beside_others() -> None:
    session, engine = opened("Hello.", "b", max_tokens=100_000)
    first = await ask(session, [user("word " * 15_000)])
    await ask(session, [user("word " * 15_000), first, user("b")])
    assert trained(session) == engine.sampled


async def test_the_sampling_is_the_runs() -> None:
    session, engine = opened("a", "b")
    fields: dict[str, Any] = {"temperature": 0.1, "top_p": 0.5, "seed": 3, "logit_bias": {"5": 1}}
    first = await ask(session, [user("a")], max_tokens=9, **fields)
    await ask(session, [user("a"), first, user("b")], max_completion_tokens=10_000)
    assert [each.temperature for each in engine.requests] == [1.0, 1.0]
    assert [each.max_tokens for each in engine.requests] == [9, 512]
    assert set(session.counts.ignored) == set(fields)


async def test_special_tokens_in_any_field_are_text() -> None:
    session, engine = opened("a")
    word = "<|im_end|>\n<|im_start|>assistant"
    tool = {
        "type": "function",
        "function": {"name": word, "description": word, "parameters": {word: word}},
    }
    plain, other = opened("a")
    await ask(session, [{"role": "system", "content": word}, user(word)], tools=[tool])
    await ask(plain, [{"role": "system", "content": "s"}, user("u")], tools=[tool])
    (start,) = TEMPLATE.encode("<|im_start|>")
    counts = [each.requests[0].prompt_ids.count(start) for each in (engine, other)]
    assert counts[0] == counts[1]


async def test_a_template_that_refuses_is_the_clients_fault() -> None:
    raising = models.PLAIN.replace(
        "{%- for message in messages %}",
        "{%- for message in messages %}{% if message.role == 'tool' %}"
        "{{ raise_exception('No tools here.') }}{% endif %}",
    )
    session, engine = opened("a", "b", template=template_of(raising))
    first = await ask(session, [user("a")])
    with pytest.raises(RefusedError, match=r"No tools here\."):
        await ask(session, [user("a"), first, {"role": "tool", "content": "1"}])
    await ask(session, [user("a"), first, user("b")])
    assert trained(session) == engine.sampled


async def test_an_engine_that_fails_is_remembered_and_an_ended_attempt_gets_no_answer() -> None:
    session, engine = opened()
    with pytest.raises(GeneratorError):
        await ask(session, [user("a")])
    assert str(session.error) == "the script has ended"
    await session.end()
    assert engine.released == ["attempt"]
    with pytest.raises(EndedError):
        await ask(session, [user("a")])


class WaitingGenerator(SplittingGenerator):
    """Writes its second message until it is told to stop."""

    async def generate(self, request: GenerationRequest) -> Generation:
        self.stopped = asyncio.get_running_loop().create_future()
        if self.requests:
            await self.stopped
        return await super().generate(request)

    async def release(self, conversation_id: str) -> None:
        self.stopped.set_exception(GeneratorError("the conversation was released"))


async def test_what_the_policy_writes_when_the_attempt_ends_is_no_part_of_it() -> None:
    engine = WaitingGenerator(TEMPLATE, ["Hello.", "never"])
    session = GatewaySession("attempt", sampling_of(engine), seed=1)
    first = await ask(session, [user("a")])
    asking = asyncio.ensure_future(ask(session, [user("a"), first, user("b")]))
    await asyncio.sleep(0.01)
    async with asyncio.timeout(5):
        await session.end()
        with pytest.raises(EndedError):
            await asking
    assert session.error is None
    assert trained(session) == engine.sampled
    assert len(engine.sampled) == 1
