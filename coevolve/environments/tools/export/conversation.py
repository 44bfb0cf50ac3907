"""Tasks and rollouts as chats: OpenAI's messages, with calls as tool calls.

The tokens that a policy read and wrote may look different, as they do for the tiny policy; the chat
has the same content. When a policy ends its turn, the chat has an assistant message without calls,
which is usually empty. A message that is no call of a known tool becomes an assistant message with
the policy's own words, and the answer to it, which no tool gave, becomes a user message.

If a turn reveals tools, the user's message lists them, as in BFCL.
"""

from collections.abc import Iterator, Sequence

import msgspec

from coevolve.environments.tools.export.tools import function_of, revealed_json
from coevolve.environments.tools.task import ToolTask

REVEALED = "I have updated some more functions you can choose from. What about now?"
"""BFCL's text for a turn in which the user says nothing else."""


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """The function of a tool call."""

    name: str
    arguments: str
    """A JSON object."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of an assistant message."""

    id: str
    type: str = "function"
    function: Function


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message of a chat; fields that do not belong to its role are left out."""

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the policy, and the answers to it."""

    turn: int
    text: str
    """Its words besides the calls."""

    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    """Answers to the first of ``calls``; the others were not executed, or were not recorded."""


def chat(body: ToolTask, said: Sequence[Said]) -> tuple[ChatMessage, ...]:
    """Return the messages of a conversation about ``body``, up to the end of ``said``."""
    messages: list[ChatMessage] = []
    turn = -1
    for each in said:
        while turn < each.turn:
            turn += 1
            messages.append(_user_message(body, turn))
        first_id = sum(len(message.tool_calls) for message in messages)
        messages.extend(_policy_messages(body, each, first_id))
    return tuple(messages)


def reference(body: ToolTask) -> tuple[ChatMessage, ...]:
    """Return the task's reference, with the tools' answers if they were recorded."""
    return chat(body, tuple(_reference_messages(body)))


def instruction(body: ToolTask) -> ChatMessage:
    """Return the user's first message."""
    return _user_message(body, 0)


def _reference_messages(body: ToolTask) -> Iterator[Said]:
    for number, turn in enumerate(body.turns):
        for place, call in enumerate(turn.reference):
            answers = turn.results[place : place + 1]
            yield Said(turn=number, text="", calls=(call,), answers=answers)
        yield Said(turn=number, text="")


def _user_message(body: ToolTask, number: int) -> ChatMessage:
    turn = body.turns[number]
    if not turn.revealed:
        return ChatMessage(role="user", content=turn.instruction)
    words = turn.instruction or REVEALED
    return ChatMessage(role="user", content=f"{revealed_json(body, number)}\n{words}")


def _policy_messages(body: ToolTask, said: Said, first_id: int) -> Iterator[ChatMessage]:
    functions = [function_of(call, body.classes) for call in said.calls]
    named = [function for function in functions if function is not None]
    if len(named) < len(functions):
        words = "\n".join((said.text, *said.calls)).strip()
        yield ChatMessage(role="assistant", content=words)
        if said.answers:
            yield ChatMessage(role="user", content="\n".join(said.answers))
        return
    calls = tuple(
        ToolCall(id=f"call_{first_id + place}", function=Function(name=name, arguments=arguments))
        for place, (name, arguments) in enumerate(named)
    )
    yield ChatMessage(role="assistant", content=said.text, tool_calls=calls)
    for call, answer in zip(calls, said.answers, strict=False):
        yield ChatMessage(role="tool", content=answer, tool_call_id=call.id)
