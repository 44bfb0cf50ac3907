"""OpenAI's Responses, as requests for the same conversation as chat completions.

A client sends the whole conversation with each request: nothing is stored under an id. An item that
a policy cannot read, such as the answer of a tool that a server of OpenAI's has, is refused.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from coevolve.base.foreign import shown
from coevolve.gateway.messages import (
    IGNORED,
    MODEL,
    Chat,
    Counted,
    RefusedError,
    Role,
    Said,
    chat_of,
    converted,
    decoded,
)

STORED = ("previous_response_id", "conversation", "prompt", "background")
"""Fields that name something that a server would have to store."""

Kind = Literal["message", "reasoning", "function_call", "function_call_output"]


class Item(msgspec.Struct, frozen=True):
    """A part of a conversation."""

    type: Kind = "message"
    role: Role | None = None
    content: str | list[dict[str, Any]] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: str | list[dict[str, Any]] = ""


class ResponsesRequest(msgspec.Struct, frozen=True):
    """The body of a request for a response."""

    input: str | list[Item]
    instructions: str | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    max_output_tokens: Counted | None = None
    text: dict[str, Any] | None = None
    stream: bool | None = None


def read_responses(body: bytes) -> Chat:
    """Return the request in a body. Raises RefusedError."""
    given = decoded(body)
    request = converted(given, ResponsesRequest)
    for name in STORED:
        if given.get(name) not in (None, False):
            raise RefusedError(
                f"{name} needs to be left out, because nothing is stored; send all of the "
                f"conversation as input, found {shown(given[name])}"
            )
    tools = [each for each in request.tools or () if each.get("type") == "function"]
    left_out = (str(each.get("type")) for each in request.tools or () if each not in tools)
    chat = chat_of(
        {name: given[name] for name in IGNORED if name in given}
        | {
            "messages": list(_messages(request)),
            "tools": list(map(_tool, tools)),
            "tool_choice": request.tool_choice,
            "response_format": (request.text or {}).get("format"),
            "max_tokens": request.max_output_tokens,
            "stream": request.stream,
        }
    )
    names = tuple(f"tool {shown(each)}" for each in sorted({*left_out}))
    return msgspec.structs.replace(chat, ignored=(*chat.ignored, *names))


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool as chat completions have it."""
    kept = ("name", "description", "parameters")
    function = {name: tool[name] for name in kept if tool.get(name) is not None}
    return {"type": "function", "function": function}


def _messages(request: ResponsesRequest) -> Iterator[dict[str, Any]]:
    """Yield the messages; calls belong to the message of the assistant before them."""
    if request.instructions:
        yield {"role": "system", "content": request.instructions}
    if isinstance(request.input, str):
        yield {"role": "user", "content": request.input}
        return
    said: dict[str, Any] | None = None
    for item in request.input:
        match item.type:
            case "reasoning":  # the policy's own text holds its thinking
                continue
            case "function_call":
                said = said or {"role": "assistant", "content": None}
                said.setdefault("tool_calls", []).append(_call(item))
                continue
            case _:
                if said:
                    yield said
                message = _message(item)
                said = message if message["role"] == "assistant" else None
                if not said:
                    yield message
    if said:
        yield said


def _message(item: Item) -> dict[str, Any]:
    """Return the message that an item is. Raises RefusedError."""
    if item.type == "function_call_output":
        return {"role": "tool", "tool_call_id": item.call_id, "content": item.output}
    if item.role is None:
        raise RefusedError("an item of the type message needs a role, found none")
    return {"role": item.role, "content": item.content}


def _call(item: Item) -> dict[str, Any]:
    """Return a call as chat completions have it. Raises RefusedError."""
    if not item.name:
        raise RefusedError("an item of the type function_call needs a name, found none")
    function = {"name": item.name, "arguments": item.arguments}
    return {"type": "function", "id": item.call_id, "function": function}


def response(said: Said, number: int) -> dict[str, Any]:
    """Return a response, the attempt's message ``number``."""
    is_whole = said.finish_reason != "length"
    return _head(number) | {
        "status": "completed" if is_whole else "incomplete",
        "incomplete_details": None if is_whole else {"reason": "max_output_tokens"},
        "output": _output(said, number),
        "usage": {
            "input_tokens": said.prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": said.sampled_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": said.prompt_tokens + said.sampled_tokens,
        },
    }


def _head(number: int) -> dict[str, Any]:
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "model": MODEL,
        "output": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "temperature": None,
        "top_p": None,
    }


def _output(said: Said, number: int) -> list[dict[str, Any]]:
    """Return the items of a message: its words, unless it has calls alone, and its calls."""
    status = "incomplete" if said.finish_reason == "length" else "completed"
    items: list[dict[str, Any]] = []
    if said.text or not said.calls:
        part: dict[str, Any] = {"type": "output_text", "text": said.text, "annotations": []}
        items.append(
            {
                "type": "message",
                "id": f"msg_{number}",
                "role": "assistant",
                "status": status,
                "content": [part],
            }
        )
    items += [
        {
            "type": "function_call",
            "id": f"fc_{number}_{place}",
            "call_id": call.id,
            "name": call.function.name,
            "arguments": call.function.text,
            "status": "completed",
        }
        for place, call in enumerate(said.calls)
    ]
    return items


def response_events(said: Said, number: int) -> bytes:
    """Return the same as server-sent events.

    A message that the limit of tokens cut off ends as ``response.completed``, too, with its status
    in the response: clients take the other event for a failure, and ask again.
    """
    whole = response(said, number)
    events: list[dict[str, Any]] = [{"type": "response.created", "response": _head(number)}]
    for place, item in enumerate(whole["output"]):
        events += ({"output_index": place} | each for each in _item_events(item))
    events.append({"type": "response.completed", "response": whole})
    return b"".join(
        b"event: %s\ndata: %s\n\n"
        % (str(each["type"]).encode(), msgspec.json.encode(each | {"sequence_number": order}))
        for order, each in enumerate(events)
    )


def _item_events(item: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """Return the events of an item, whose text comes in one piece."""
    is_message = item["type"] == "message"
    empty: dict[str, Any] = {"content": []} if is_message else {"arguments": ""}
    begun: dict[str, Any] = {**item, **empty, "status": "in_progress"}
    filled = _text_events(item["content"][0]) if is_message else _call_events(item)
    return (
        {"type": "response.output_item.added", "item": begun},
        *({"item_id": item["id"]} | each for each in filled),
        {"type": "response.output_item.done", "item": item},
    )


def _text_events(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    text: dict[str, Any] = {"content_index": 0, "logprobs": []}
    whole: dict[str, Any] = {"content_index": 0, "part": part}
    yield whole | {"type": "response.content_part.added", "part": part | {"text": ""}}
    yield text | {"type": "response.output_text.delta", "delta": part["text"]}
    yield text | {"type": "response.output_text.done", "text": part["text"]}
    yield whole | {"type": "response.content_part.done"}


def _call_events(call: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    kind, arguments = "response.function_call_arguments", call["arguments"]
    yield {"type": f"{kind}.delta", "delta": arguments}
    yield {"type": f"{kind}.done", "name": call["name"], "arguments": arguments}
