"""Reads what a model wrote: its thinking, its JSON objects and its fences.

Promises: nothing is cut inside of a JSON object, of a fence or of a string. Thinking is cut off
only where it can stand. A policy's prompt says whether the thinking is open (`opens_thinking`), and
else the message itself opens it at its beginning. An endpoint may leave the opening out, so
`without_thoughts` also finds thinking without one, up to a ``</think>`` that stands outside of
objects and fences.
"""

import json
import re

THINK, END = "<think>", "</think>"
MOST_OBJECTS = 1_000
"""Maximum number of ``{`` at which an object is tried, which bounds the work for one answer."""

_MARK = re.compile(r"</think>|\{|^[ \t]*```", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*```", re.MULTILINE)


class UnfinishedThinkingError(ValueError):
    """A message is nothing but thinking."""


def opens_thinking(prompt: str) -> bool:
    """Return whether a message after this generation prompt begins inside of its thinking."""
    return prompt.rstrip().endswith(THINK)


def spoken(text: str, *, thinking: bool) -> str:
    """Return the part of a message after its thinking, which its first ``</think>`` ends.

    ``thinking`` says whether the prompt opened the thinking; otherwise only a ``<think>`` at the
    beginning does. Raises UnfinishedThinkingError if the thinking does not end.
    """
    if not thinking and not text.lstrip().startswith(THINK):
        return text.strip()
    _, end, words = text.partition(END)
    if not end:
        raise UnfinishedThinkingError(
            "a message needs to end its thinking by </think>, found no end"
        )
    return words.strip()


def without_thoughts(answer: str) -> str:
    """Return an endpoint's answer without its thinking. Raises UnfinishedThinkingError."""
    answer = spoken(answer, thinking=False)
    start = position = objects = 0
    while mark := _MARK.search(answer, position):
        position = mark.end()
        if mark[0] == END:
            start = position
        elif mark[0] != "{":
            closing = _FENCE.search(answer, position)
            position = closing.end() if closing else position
        elif objects < MOST_OBJECTS:
            objects += 1
            position = end_of_object(answer, mark.start()) or position
    return answer[start:].strip()


def end_of_object(text: str, start: int) -> int:
    """Return the position after the JSON object that begins at ``start``; 0 if there is none."""
    try:
        return _DECODER.raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return 0


_DECODER = json.JSONDecoder()
