"""What the policy wrote, as a client reads it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocols.generation import Generation

if TYPE_CHECKING:
    from coevolve.models.chat_template import ChatTemplate


@dataclass(frozen=True, kw_only=True)
class Written:
    """A sampled message."""

    generation: Generation
    """The tokens; with a stop string, those up to the one that completes it."""

    text: str
    """What it says, without the stop string; special tokens are spelled out."""

    is_whole: bool
    """Whether the policy, or a stop string, ended the message, and not a limit of tokens."""


def read(template: "ChatTemplate", generation: Generation, stops: Sequence[str]) -> Written:
    """Return the message up to the first of the texts ``stops``."""
    ids = generation.token_ids
    at = _completed(template, ids, stops)
    if at is None:
        text, is_whole = _whole_text(template, generation), generation.stopped
    else:
        generation, is_whole = _cut(generation, at), True
        text = template.decode(generation.token_ids)
        text = text[: min(text.find(each) for each in stops if each in text)]
    return Written(generation=generation, text=text, is_whole=is_whole)


def shown(template: "ChatTemplate", text: str) -> str:
    """Return a text without special tokens, and without NUL, which no request may hold."""
    return template.unmarked(text).replace("\0", "\N{REPLACEMENT CHARACTER}")


def _whole_text(template: "ChatTemplate", generation: Generation) -> str:
    """Return the text of a message without stop string."""
    ids = generation.token_ids
    if not generation.stopped:
        return template.decode(ids)
    try:
        return template.said(ids)
    except ValueError:  # tokens that only the template may write stay in the conversation
        return template.decode(ids[:-1])


def _completed(template: "ChatTemplate", ids: Sequence[int], stops: Sequence[str]) -> int | None:
    """Return how many tokens complete the first stop string; None if there is none."""

    def has_stop(count: int) -> bool:
        text = template.decode(ids[:count])
        return any(stop in text for stop in stops)

    if not stops or not has_stop(len(ids)):
        return None
    low, high = 1, len(ids)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if has_stop(middle) else (middle + 1, high)
    return low


def _cut(generation: Generation, count: int) -> Generation:
    """Return the first tokens of a message, which has then no end of its own."""
    return Generation(
        token_ids=generation.token_ids[:count],
        logprobs=generation.logprobs[:count],
        versions=generation.versions[:count],
        cache_versions=generation.cache_versions[:count],
        stopped=False,
    )
