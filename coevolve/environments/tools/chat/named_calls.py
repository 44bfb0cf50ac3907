"""Calls as names and arguments, for clients that get a policy's messages over an endpoint.

Tools, calls and answers are written by the model's template, or as words (``policy.chat.tools``).
Calls are read by the same readers as those of an agent of coevolve. A name that Python's call
expressions cannot hold, such as one with a hyphen, makes a call malformed.
"""

import ast
import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, cast

from coevolve.base.foreign import boundary
from coevolve.environments.tools.chat.call_text import MalformedCallsError, python_list
from coevolve.environments.tools.chat.calls import CallForm, read_calls
from coevolve.environments.tools.chat.json_forms import OPEN
from coevolve.environments.tools.chat.python_forms import START
from coevolve.environments.tools.chat.renderer import (
    ChatRenderer,
    answers_listed,
    with_tools_listed,
)
from coevolve.environments.tools.chat.typed import Types, parameter_types
from coevolve.gateway.session import CallReader, NamedCall, Sampling
from coevolve.llm.reading import END, opens_thinking, spoken
from coevolve.models.chat_template import ChatTemplate, Message
from protocols.config import ChatConfig
from protocols.errors import ConfigError

MARKS = (OPEN, "<function=", START)
"""What stands before the first call of a message, in the forms that have such a mark."""


def with_tools(sampling: Sampling, chat: ChatConfig) -> Sampling:
    """Return how a session samples whose clients offer tools."""
    reader = call_reader(sampling.template, chat)
    sampling = dataclasses.replace(sampling, read_calls=reader)
    if chat.tools == "template":
        return sampling

    def write(messages: Sequence[Message], tools: Sequence[Message]) -> list[Message]:
        with boundary(ConfigError, "tools that can be listed are needed"):
            return _listing(_worded(messages), chat, tools) if tools else _worded(messages)

    return dataclasses.replace(sampling, write_tools=write)


def _listing(
    messages: Sequence[Message], chat: ChatConfig, tools: Sequence[Message]
) -> list[Message]:
    """Return a conversation whose system message lists tools."""
    has_system = messages[0]["role"] == "system"
    system = messages[0]["content"] if has_system else ""
    first = {"role": "system", "content": with_tools_listed(system, chat, tools)}
    return [first, *messages[has_system:]]


def _worded(messages: Sequence[Message]) -> list[Message]:
    """Return messages whose calls and answers are words."""
    found: list[Message] = []
    for is_answer, some in itertools.groupby(messages, lambda each: each["role"] == "tool"):
        if is_answer:
            found.append(answers_listed([each["content"] for each in some]))
        else:
            found += map(_spelled, some)
    return found


def _spelled(message: Message) -> Message:
    """Return a message whose calls stand in its content."""
    if "tool_calls" not in message:
        return message
    calls = [_spelled_call(**each["function"]) for each in message["tool_calls"]]
    return {"role": message["role"], "content": python_list(calls)}


def _spelled_call(name: str, arguments: Any) -> str:
    """Return a call; arguments that are no object are what a client wrote."""
    if isinstance(arguments, dict):
        named = cast("dict[str, Any]", arguments)
        arguments = ", ".join(f"{each}={value!r}" for each, value in named.items())
    return f"{name}({arguments})"


def call_reader(template: ChatTemplate, chat: ChatConfig) -> CallReader | None:
    """Return the reader of calls in the form of the policy; None if its template lists no tools.

    The form is proven: the template writes calls, and they are read as written.
    """
    try:
        renderer = ChatRenderer(template, chat)
    except ConfigError:
        return None
    form, thinking = renderer.form, opens_thinking(template.prompt)

    def read(text: str, tools: Sequence[dict[str, Any]]) -> tuple[str, Sequence[NamedCall]]:
        with boundary(MalformedCallsError, "calls cannot be read"):
            calls = read_calls(form, spoken(text, thinking=thinking), _types(form, tools))
            named = tuple(_named(each, tools) for each in calls)
            return (_words(form, text), named) if named else (text, ())

    return read


def _types(form: CallForm, tools: Sequence[dict[str, Any]]) -> Types:
    """Return the types by which a form reads values; tools of clients need not name any."""
    if form not in ("xml", "keys"):
        return {}
    complete = (
        tool["function"]
        | {"parameters": {"properties": {}} | (tool["function"].get("parameters") or {})}
        for tool in tools
    )
    return parameter_types([{"type": "function", "function": each} for each in complete])


def _words(form: CallForm, text: str) -> str:
    """Return the words before the first call, thinking included."""
    if form in ("json", "pythonic", "python"):
        return ""
    begin = text.find(END) + len(END) if END in text else 0
    places = [place for mark in MARKS if (place := text.find(mark, begin)) >= 0]
    return text[: min(places)].rstrip() if places else ""


def _named(call: str, tools: Sequence[dict[str, Any]]) -> NamedCall:
    """Return the name and the arguments of a call expression with literals. Raises ValueError."""
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    name = ast.unparse(node.func)
    unnamed = zip(_parameters(name, tools)[: len(node.args)], node.args, strict=True)
    named = ((str(each.arg), each.value) for each in node.keywords)
    return name, {key: ast.literal_eval(value) for key, value in (*unnamed, *named)}


def _parameters(name: str, tools: Sequence[dict[str, Any]]) -> list[str]:
    """Return the names of a tool's parameters in their order; none if the tool is unknown."""
    functions = [each["function"] for each in tools if each["function"]["name"] == name]
    return [*((functions[0].get("parameters") or {}).get("properties") or {})] if functions else []
