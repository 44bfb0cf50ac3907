"""Reads a chat completion: its text, or why it has none."""

from typing import Annotated, Any, cast

import msgspec

from coevolve.llm.faults import Fault, refusal, withheld
from coevolve.llm.http import shown

_Counted = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]

_TEXT_PARTS = (None, "text", "output_text")
"""Types of the parts of a message that are its text; all others, such as thoughts, are not."""

_FILTERED = ("content_filter", "refusal", "safety")


class Usage(msgspec.Struct):
    """The server's counts."""

    prompt_tokens: _Counted | None = None
    completion_tokens: _Counted | None = None


class Completion(msgspec.Struct, frozen=True):
    """An answer, with its counts."""

    text: str
    usage: Usage


class _Part(msgspec.Struct):
    type: str | None = None
    text: Any = None
    refusal: str | None = None


class _Spoken(msgspec.Struct):
    content: str | list[str | _Part] | _Part | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Spoken
    finish_reason: str | None = None


class _Body(msgspec.Struct):
    choices: list[_Choice]
    usage: Usage | None = None


def completion_in(body: bytes) -> Completion | Fault:
    """Return the answer in a reply's body, or why there is none."""
    try:
        found = msgspec.json.decode(body, type=_Body)
    except (ValueError, RecursionError) as error:
        return Fault(
            f"its answer is not a chat completion ({error}): {shown(body)}",
            "check that base_url is that of an OpenAI-compatible server; it usually ends in /v1",
            passing=True,
        )
    if not found.choices:
        return Fault(
            f"its answer has no choices: {shown(body)}",
            "the server accepted the request and wrote nothing; its log may say why",
            passing=True,
        )
    choice = found.choices[0]
    reason = choice.finish_reason or ""
    text, refused = _words(choice.message)
    if reason.lower() in _FILTERED:
        return refusal(refused) if refused else withheld(f"finish_reason {reason}")
    if refused and not text:
        return refusal(refused)
    return Completion(text, found.usage or Usage())


def _words(message: _Spoken) -> tuple[str, str]:
    """Return a message's text and its refusal."""
    content = message.content
    parts = content if isinstance(content, list) else [content]
    refusals = [each.refusal for each in parts if isinstance(each, _Part) and each.refusal]
    return "".join(map(_text, parts)), message.refusal or "".join(refusals)


def _text(part: str | _Part | None) -> str:
    if not isinstance(part, _Part):
        return part or ""
    if part.type not in _TEXT_PARTS:
        return ""
    text = part.text
    if isinstance(text, dict):  # beside annotations, as in OpenAI's messages of threads
        text = cast("dict[str, Any]", text).get("value")
    return text if isinstance(text, str) else ""
