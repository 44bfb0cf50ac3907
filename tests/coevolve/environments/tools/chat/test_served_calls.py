"""Compares the calls that are read with those of the vLLM parser that serves each form.

A difference is allowed only where that parser loses a part of what the policy wrote, or cuts inside
of a text; `DIFFERENCES` lists them.
"""

import json
import logging
import random
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest

from coevolve.environments.tools.chat.call_text import MalformedCallsError, call_text
from coevolve.environments.tools.chat.calls import FORMS, SERVED_BY, CallForm, read_calls
from tests.coevolve.environments.tools.chat.test_calls import mutated
from tests.coevolve.environments.tools.chat.written import TOOLS, TYPES, WRITERS, values

pytestmark = pytest.mark.vllm

TOKENS = (
    *("<|python_tag|>", "<|tool_call_start|>", "<|tool_call_end|>", "<tool_call>", "</tool_call>"),
    *("<think>", "</think>"),
)


class Vocabulary:
    """All that vLLM's parsers need of a tokenizer."""

    chat_template = ""

    def get_vocab(self) -> dict[str, int]:
        return {token: place for place, token in enumerate(TOKENS)}


def served(form: CallForm, text: str) -> list[str]:
    """Return the calls that vLLM's parser finds; none if it takes the message for words."""
    # vLLM is imported here, because that takes seconds.
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.tool_parsers import ToolParserManager

    logging.getLogger("vllm").setLevel(logging.CRITICAL)
    messages: list[Any] = [{"role": "user", "content": "?"}]
    request = ChatCompletionRequest(
        messages=messages, model="m", seed=None, tools=cast("Any", TOOLS)
    )
    vocabulary: Any = Vocabulary()
    tools: Any = request.tools
    parser = ToolParserManager.get_tool_parser(SERVED_BY[form])(vocabulary, tools)
    found = parser.extract_tool_calls(text, request)
    return [_written(call.function) for call in found.tool_calls]


def _written(function: Any) -> str:
    """Return a call as text; one that no tool could be called with is malformed for a client."""
    arguments = json.loads(function.arguments)
    try:
        return call_text(function.name, arguments or {})
    except (ValueError, AttributeError):
        return ""


def ours(form: CallForm, text: str) -> list[str]:
    try:
        return list(read_calls(form, text, TYPES))
    except MalformedCallsError:
        return []


PUT = {"key": "a", "value": "b"}
LS: Mapping[str, object] = {}


def messages(form: CallForm) -> Iterator[str]:
    """Yield messages that both have to read alike: right ones, and faults of many kinds."""
    put, ls = WRITERS[form]("put", PUT), WRITERS[form]("ls", LS)
    yield from (put, ls, "Done.", "", "[Note] It is set.", '{"status": "done"}', "[a](#a) is set.")
    yield from ("</tool_call>", "```json\n{}\n```", "Set {x}.", "put(key='a')", "[ls]")
    if form not in ("pythonic", "json"):
        yield from (f"Words. {put}", f"{put} Words.", f"Words. {put}\nMore.")
    if form in ("tags", "xml", "keys"):
        yield from (
            f"{put}\n{ls}",
            f"{put}{ls}",
            f"{put} and {ls}.",
            put.removesuffix("</tool_call>"),
        )
        yield "<tool_call></tool_call>"
    yield from OWN.get(form, ())


CALL = '{"name": "put", "arguments": {"key": "a"}}'
OWN: Mapping[CallForm, tuple[str, ...]] = {
    "tags": (
        f"<tool_call>{CALL} {CALL}</tool_call>",
        f"<tool_call>{CALL} please</tool_call>",
        f"<tool_call>{CALL}<tool_call>{CALL}</tool_call>",
        f"<tool_call>```json\n{CALL}\n```</tool_call>",
        '<tool_call>{"name": "ls"}</tool_call>',
        '<tool_call>{"name": "get", "arguments": null}</tool_call>',
        '<tool_call>{"name": "get", "arguments": ""}</tool_call>',
        '<tool_call>{"name": "put", "parameters": {"key": "a"}}</tool_call>',
        '<tool_call>{"name": "put", "arguments": {"key": "x <tool_call> y"}}</tool_call>',
        '<tool_call>{"name": 5, "arguments": {}}</tool_call>',
        '<tool_call>["put"]</tool_call>',
        "<tool_call>put(key='a')</tool_call>",
    ),
    "json": (
        *(f"Here: {CALL}", f"{CALL} and so on", f"{CALL}; {CALL}", f"[{CALL}, {CALL}]"),
        *(f"<|python_tag|>{CALL}", f"{CALL}{CALL}", f"```json\n{CALL}\n```", f"{CALL} and {{x}}"),
        *('{"name": "ls"}', '{"name": "ls", "parameters": null}', '{"name": "Bob", "age": 3}'),
        '{"type": "function", "function": {"name": "ls", "parameters": {}}}',
    ),
    "pythonic": (
        *("[]", "[put('a')]", "[ls( )]", "[ ls()]", "[put(key='a',)]", "[put(key='a'),]"),
        *("[put(key=1 + 2)]", "[put(key=a)]", "[put(key=true)]", "[put(obj={'a': [1, None]})]"),
        *("[_put(key='a')]", "[a.b(key='a')]", "[put(key={1, 2})]", "[put(key=b'x')]", "[ls()] ok"),
        *("[put(key='a'", "```python\n[ls()]\n```", "[put(key=-1.5)]", "[put(_k='a')]"),
    ),
    "wrapped": (
        *(
            f"<|tool_call_start|>{each}<|tool_call_end|>"
            for each in ("[]", "ls()", "[put(key=1+1)]")
        ),
        "<|tool_call_start|>[put(key='it's', value='say \"hi\"')]<|tool_call_end|>",
        "<|tool_call_start|>[put(key='two\nlines')]<|tool_call_end|>",
        "<|tool_call_start|>[put(count=07)]<|tool_call_end|>",
        "<|tool_call_start|>[ls()]<|tool_call_end|>[ls()]<|tool_call_end|>",
        *("<|tool_call_start|>[ls()]", "<|tool_call_start|>[put(key='a'", "[ls()]"),
    ),
    "xml": (
        "<function=ls>\n</function>",
        "<tool_call>{}</tool_call>",
        "<tool_call><function=put><parameter=key>a</parameter></function></tool_call>",
        "<tool_call>\n<function=put>\n<parameter=key>\na\n</parameter>\n",
        "<tool_call>\n<function=put>\n<parameter=nokey>\n1\n</parameter>\n</function>\n</tool_call>",
    ),
    "keys": (
        "<tool_call>{}</tool_call>",
        "<tool_call>nope\n</tool_call>",
        "<tool_call>put\n<arg_key>key</arg_key><arg_value>x <tool_call> y</arg_value></tool_call>",
    ),
}
DIFFERENCES: Mapping[CallForm, tuple[str, ...]] = {
    "tags": ('<tool_call>{"name": "put", "arguments": {"key": "x </tool_call> y"}}</tool_call>',),
    "json": (),
    "pythonic": ("[put(key='a'), get('b')]", "[ls()]\nok"),
    "wrapped": (
        "<|tool_call_start|>[put('a')]<|tool_call_end|>",
        "<|tool_call_start|>[put(key='<|tool_call_end|>')]<|tool_call_end|>",
        "<|tool_call_start|>[ls()]<|tool_call_end|><|tool_call_start|>[ls()]<|tool_call_end|>",
    ),
    "xml": (
        WRITERS["xml"]("put", {"key": "x </parameter> y"}),
        WRITERS["xml"]("put", {"key": "x </function> y"}),
        WRITERS["xml"]("put", {"key": "x <parameter=value> y"}),
        "<tool_call>\n<function=put>\nkey=a\n</function>\n</tool_call>",
        "<tool_call>\n<function=put>\n<parameter=key>\na",
        "<tool_call>\n<function=ls",
    ),
    "keys": (
        WRITERS["keys"]("put", {"key": "x </arg_value> y"}),
        WRITERS["keys"]("put", {"key": "x </tool_call> y"}),
        "<tool_call>put\n<arg_key>key</arg_key>\n<arg_value>a",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_calls_are_those_of_the_served_parser(form: CallForm) -> None:
    told = list(messages(form))
    assert len(told) >= 15
    for text in told:
        expected = served(form, text)
        assert ours(form, text) == ([] if "" in expected else expected), text


@pytest.mark.parametrize("form", FORMS)
def test_where_the_served_parser_loses_a_part_the_calls_differ(form: CallForm) -> None:
    for text in DIFFERENCES[form]:
        assert ours(form, text) != served(form, text), text


@pytest.mark.parametrize("form", FORMS)
def test_values_are_those_of_the_served_parser(form: CallForm) -> None:
    same = 0
    for value in values():
        text = WRITERS[form]("put", {"key": "a", "value": value})
        expected, found = served(form, text), ours(form, text)
        assert not (expected and found) or found == expected, text
        same += found == expected
    assert same >= 170


@pytest.mark.parametrize("form", FORMS)
def test_of_a_mutated_message_no_other_calls_are_made_than_by_the_served_parser(
    form: CallForm,
) -> None:
    chance = random.Random(f"{form} served")
    both = same = 0
    for _ in range(200):
        text = mutated(form, chance)
        expected, found = served(form, text.strip()), ours(form, text.strip())
        if found and expected:
            both += 1
            assert found == expected, text
        same += found == ([] if "" in expected else expected)
    assert both > 20
    assert same > 100
