"""Requests for chat completions, as clients of OpenAI's interface write them, and their answers.

A request that cannot be answered faithfully is refused with one sentence.
"""

import time
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Annotated, Any, Literal, TypeVar, cast

import msgspec

from coevolve.base.foreign import plain, shown
from protocols.generation import Generation

MAX_TOOLS_BYTES = 1 << 20
MAX_STOPS = 16
MODEL = "policy"
"""The one model that the gateway has; clients may name any."""

NESTED = "a body needs fewer nested values"
TEXTS = ("text", "input_text", "output_text", "refusal")
"""Kinds of parts of a message that are text."""

IGNORED = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logit_bias",
    "seed",
    "logprobs",
    "top_logprobs",
)
"""Fields that would change how is sampled, or what is told of it. They are counted by name."""

FREE_CHOICES = (None, "auto", "none")

Role = Literal["system", "developer", "user", "assistant", "tool"]
Counted = Annotated[int, msgspec.Meta(ge=1)]
StopString = Annotated[str, msgspec.Meta(min_length=1)]
Form = TypeVar("Form")
Stops = Annotated[list[StopString], msgspec.Meta(min_length=1, max_length=MAX_STOPS)]


class RefusedError(Exception):
    """A request that gets status 400; the text says what is required and what was found."""

    def __init__(self, sentence: str, code: str = "") -> None:
        super().__init__(sentence)
        self.code = code or "invalid_request"


class Function(msgspec.Struct, frozen=True):
    """The function of a call."""

    name: str
    arguments: str | dict[str, Any] | None = ""

    @property
    def text(self) -> str:
        """The arguments as JSON text."""
        if isinstance(self.arguments, dict):
            return msgspec.json.encode(self.arguments).decode()
        return self.arguments or ""

    @property
    def value(self) -> Any:
        """The arguments as a JSON value; the text itself if it is no JSON."""
        try:
            return msgspec.json.decode(self.text or "{}")
        except (msgspec.MsgspecError, RecursionError):
            return self.text


class Call(msgspec.Struct, frozen=True):
    """A call of a tool in a message of the assistant."""

    function: Function
    id: str = ""
    type: str = "function"


class Message(msgspec.Struct, frozen=True):
    """A message of a client; fields that say nothing to the policy are left out."""

    role: Role
    content: str | list[dict[str, Any]] | None = None
    tool_calls: tuple[Call, ...] | None = None
    tool_call_id: str | None = None

    @property
    def speaker(self) -> str:
        """The role as chat templates know it."""
        return "system" if self.role == "developer" else self.role

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls; empty if there are none."""
        return self.tool_calls or ()

    @property
    def text(self) -> str:
        """The words. Raises RefusedError for images and the like."""
        if isinstance(self.content, list):
            return "".join(map(_part_text, self.content))
        return self.content or ""

    def plain(self) -> dict[str, Any]:
        """Return the message as chat templates read it."""
        plain: dict[str, Any] = {"role": self.speaker, "content": self.text}
        if self.calls:
            plain["tool_calls"] = [
                {"type": "function", "function": {"name": each.name, "arguments": each.value}}
                for each in (call.function for call in self.calls)
            ]
        return plain


class ToolFunction(msgspec.Struct, frozen=True):
    """What a tool is called."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Tool(msgspec.Struct, frozen=True):
    """A tool that a client offers."""

    type: Literal["function"]
    function: ToolFunction


class ChatRequest(msgspec.Struct, frozen=True):
    """The body of a request for a chat completion."""

    messages: Annotated[tuple[Message, ...], msgspec.Meta(min_length=1)]
    tools: tuple[Tool, ...] | None = None
    tool_choice: Any = None
    response_format: dict[str, Any] | None = None
    n: int | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    max_tokens: Counted | None = None
    max_completion_tokens: Counted | None = None
    stop: StopString | Stops | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0)] | None = None

    @property
    def most_tokens(self) -> int | None:
        """How many tokens the client wants at most."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def stops(self) -> tuple[str, ...]:
        """The texts that end a message."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())


class Chat(msgspec.Struct, frozen=True, kw_only=True):
    """A request that can be answered."""

    request: ChatRequest
    messages: tuple[Message, ...]
    """Answers of parallel calls stand in the order of the calls: most templates write no ids."""

    tools: tuple[dict[str, Any], ...]
    """As the client wrote them, for the template."""

    ignored: tuple[str, ...]
    """Names of fields that would change how is sampled."""

    token_ids: tuple[int, ...] = ()
    """The conversation in tokens, in place of messages and tools; empty if it has none."""


def read_chat(body: bytes) -> Chat:
    """Return the request in a body. Raises RefusedError."""
    return chat_of(decoded(body))


def chat_of(given: dict[str, Any]) -> Chat:
    """Return the request that a JSON object is. Raises RefusedError."""
    request = converted(given, ChatRequest)
    _refuse_unfaithful(request)
    tools: tuple[dict[str, Any], ...] = tuple(given.get("tools") or ())
    if len(msgspec.json.encode(tools)) > MAX_TOOLS_BYTES:
        raise RefusedError(f"tools need at most {MAX_TOOLS_BYTES} bytes as JSON, found more")
    ignored = [name for name in IGNORED if given.get(name) not in (None, False)]
    if request.tool_choice not in FREE_CHOICES:
        ignored.append("tool_choice")
    return Chat(
        request=request,
        messages=tuple(_sorted(request.messages)),
        tools=tools,
        ignored=tuple(ignored),
    )


def converted(given: dict[str, Any], form: type[Form]) -> Form:
    """Return a JSON object in the form of a request. Raises RefusedError."""
    try:
        return msgspec.convert(given, form)
    except msgspec.ValidationError as error:
        raise RefusedError(f"a request needs OpenAI's form: {plain(str(error), 300)}") from error
    except RecursionError as error:
        raise RefusedError(NESTED) from error


def decoded(body: bytes) -> dict[str, Any]:
    """Return a JSON object. Raises RefusedError."""
    try:
        given: Any = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise RefusedError(f"a body needs to be JSON, found: {plain(str(error), 300)}") from error
    except RecursionError as error:
        raise RefusedError(NESTED) from error
    if not isinstance(given, dict):
        raise RefusedError(f"a body needs to be a JSON object, found {shown(given)}")
    if b"\\u0000" in body and any("\0" in text for text in _texts(given)):
        raise RefusedError("a body needs texts without the character NUL, found one")
    return cast("dict[str, Any]", given)


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, each in cast("dict[str, Any]", value).items():
            yield name
            yield from _texts(each)
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _texts(each)


def _refuse_unfaithful(request: ChatRequest) -> None:
    """Refuse what the policy cannot do as it is asked. Raises RefusedError."""
    if request.n not in (None, 1):
        raise RefusedError(f"n needs to be 1, found {request.n}")
    if request.messages[-1].role == "assistant":
        raise RefusedError("the last message needs to be another one's, found the assistant's")
    kind = (request.response_format or {}).get("type", "text")
    if kind != "text":
        raise RefusedError(
            f"response_format needs the type text, found {shown(kind)}: there is no grammar for it"
        )
    for message in request.messages:
        if not isinstance(message.content, str):
            _ = message.text


def _part_text(part: dict[str, Any]) -> str:
    kind = part.get("type")
    text = part.get("text", part.get("refusal"))
    if kind not in TEXTS or not isinstance(text, str):
        raise RefusedError(f"a message needs text or parts of text, found {shown(part)}")
    return text


def _sorted(messages: Sequence[Message]) -> list[Message]:
    """Return messages, the answers of parallel calls in the order of the calls."""
    found, calls = list(messages), tuple[Call, ...]()
    for at, message in enumerate(found):
        if message.role == "assistant":
            calls = message.calls
        elif len(calls) > 1 and message.role == "tool" and found[at - 1].role != "tool":
            answers = list(takewhile(lambda each: each.role == "tool", found[at:]))
            order = {call.id: place for place, call in enumerate(calls)}
            answers.sort(key=lambda each: order.get(each.tool_call_id or "", len(order)))
            found[at : at + len(answers)] = answers
    return found


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A sampled message, as the client gets it."""

    text: str
    """The words; without calls, the whole message."""

    calls: tuple[Call, ...] = ()
    written: str
    """The whole message, with its calls as the policy wrote them."""

    finish_reason: Literal["stop", "length", "tool_calls"]
    stops: tuple[str, ...] = ()
    """Texts that would have ended it; clients may put one back."""

    prompt_tokens: int
    generation: Generation

    @property
    def sampled_tokens(self) -> int:
        """The number of sampled tokens."""
        return len(self.generation.token_ids)


def completion(said: Said, number: int) -> dict[str, Any]:
    """Return a chat completion, the attempt's message ``number``."""
    message: dict[str, Any] = {"role": "assistant", "content": said.text}
    if said.calls:
        message |= {
            "content": said.text or None,
            "tool_calls": msgspec.to_builtins(said.calls),
        }
    return {
        **_head(number),
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": said.finish_reason,
                "logprobs": None,
            }
        ],
        "usage": _usage(said),
    }


def _head(number: int) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "created": int(time.time()), "model": MODEL}


def _usage(said: Said) -> dict[str, int]:
    return {
        "prompt_tokens": said.prompt_tokens,
        "completion_tokens": said.sampled_tokens,
        "total_tokens": said.prompt_tokens + said.sampled_tokens,
    }


def events(said: Said, number: int, *, usage: bool) -> bytes:
    """Return the same as server-sent events; ``usage`` adds the one with the token counts."""
    head = _head(number) | {"object": "chat.completion.chunk"}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if said.text:
        deltas.append({"content": said.text})
    deltas += [
        {"tool_calls": [{"index": index, **msgspec.to_builtins(call)}]}
        for index, call in enumerate(said.calls)
    ]
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": each, "finish_reason": None} for each in deltas
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": said.finish_reason})
    chunks: list[dict[str, Any]] = [head | {"choices": [each]} for each in choices]
    if usage:
        chunks.append(head | {"choices": [], "usage": _usage(said)})
    lines = [b"data: %s\n\n" % msgspec.json.encode(each) for each in chunks]
    return b"".join((*lines, b"data: [DONE]\n\n"))
