"""Whether a message that a client sends back is the one that was sampled.

What a client repeats may differ from what it got, although it means the same. A call is known by
its id, which the gateway makes; words are compared without white space, thinking and stop strings.
A client that changes a valid call or the words has another conversation.
"""

from typing import Any, cast

import msgspec

from coevolve.gateway.messages import Call, Message, Said
from coevolve.llm.reading import END

Notes = tuple[str, ...]
"""Names of harmless changes."""


def difference(said: Said, back: Message) -> tuple[str, Notes]:
    """Return why ``back`` is not ``said`` (empty: it is), and what was changed harmlessly."""
    if back.role != "assistant":
        return "a message of the policy was left out", ()
    if said.text == back.text and said.calls == back.calls:
        return "", ()
    if said.calls and not back.calls and all(call.id in back.text for call in said.calls):
        return "", ("calls as text",)
    reason, notes = _calls(said.calls, back.calls)
    if reason:
        return reason, ()
    words = _words(said, back)
    return ("the text of the policy was edited", ()) if words is None else ("", (*notes, *words))


def _words(said: Said, back: Message) -> Notes | None:
    """Return the harmless changes of the words; None if they are others."""
    if said.text == back.text:
        return ()
    mine, yours = _squeezed(said.text), _squeezed(back.text)
    if mine == yours:
        return ("white space",)
    if any(yours == _squeezed(said.text + stop) for stop in said.stops):
        return ("stop string put back",)
    if _spoken(said.text) == _spoken(back.text):
        return ("thinking changed",)
    if said.calls and not yours:
        return ("words beside calls dropped",)
    return None


def _calls(mine: tuple[Call, ...], yours: tuple[Call, ...]) -> tuple[str, Notes]:
    if len(mine) != len(yours):
        return f"{len(yours)} calls came back in place of {len(mine)}", ()
    notes: list[str] = []
    for own, other in zip(mine, yours, strict=True):
        if own.function.name != other.function.name:
            return "the name of a call was changed", ()
        if not _same(own.function.text, other.function.text):
            if _is_json(own.function.text) or own.id != other.id:
                return "the arguments of a call were changed", ()
            notes.append("broken arguments changed")
        elif own.function.text != other.function.text:
            notes.append("arguments written anew")
        if own.id != other.id:
            notes.append("call ids replaced")
    return "", tuple(dict.fromkeys(notes))


def _squeezed(text: str) -> str:
    """Return a text without white space."""
    return "".join(text.split())


def _spoken(text: str) -> str:
    """Return what follows the thinking, without white space."""
    return _squeezed(text.rpartition(END)[2])


def _is_json(arguments: str) -> bool:
    try:
        msgspec.json.decode(arguments or "{}")
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _same(one: str, other: str) -> bool:
    """Return whether two texts are the same JSON value: 1.0 is 1, and true is not."""
    if one == other:
        return True
    try:
        values = (msgspec.json.decode(each or "{}") for each in (one, other))
        return _canonical(next(values)) == _canonical(next(values))
    except (msgspec.MsgspecError, RecursionError):
        return False


def _canonical(value: Any) -> object:
    """Return a JSON value in which no truth value equals a number."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, dict):
        return {name: _canonical(each) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_canonical(each) for each in cast("list[Any]", value)]
    return value
