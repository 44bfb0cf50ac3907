"""The policy's format: requests, calls and answers as one token a word.

    <u>do07 thing12 then do31<a>tool07 thing12 mode5 tool31<e><o>ok<a><e>

The policy writes from ``<a>`` to ``<e>``: all calls in one message, then an empty one. Other
messages are malformed. So just one sequence of tokens solves a task, and the policy's success at
temperature 1 is exactly the likelihood of this sequence.
"""

import re
from collections.abc import Sequence

from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.environments.tools.toolbox.words import (
    CALL,
    END,
    ERROR,
    IDS,
    OBSERVED,
    OK,
    USER,
    WORDS,
)
from protocols.tasks import Task

_MESSAGE = re.compile(r"tool\d\d thing\d\d( mode\d tool\d\d)*")
_STEP = re.compile(r"(mode\d) (tool\d\d)")
_CALL = re.compile(r"(tool\d\d)\((?:thing|mode)='(\w+)'\)")


class ToolboxRenderer:
    """A `coevolve.environments.tools.interfaces.Renderer`."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The end of a message."""
        return (END,)

    def opening(self, task: ToolTask) -> tuple[int, ...]:
        return self.instruction(task, 0)

    def instruction(self, task: ToolTask, turn: int, said: Sequence[int] = ()) -> tuple[int, ...]:
        return (USER, *_ids(task.turns[turn].instruction), CALL)

    def observation(self, results: Sequence[str], said: Sequence[int] = ()) -> tuple[int, ...]:
        return (OBSERVED, IDS[OK if set(results) == {OK} else ERROR], CALL)

    def parse(self, token_ids: Sequence[int], classes: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the calls, or nothing for an empty message. Raises ValueError for other text."""
        text = self.words(token_ids)
        if not text:
            return ()
        if not _MESSAGE.fullmatch(text):
            raise ValueError(f"a message needs a tool, its thing, and modes with tools; got {text}")
        first, thing = text.split()[:2]
        return (f"{first}(thing={thing!r})", *(f"{t}(mode={m!r})" for m, t in _STEP.findall(text)))

    def words(self, token_ids: Sequence[int]) -> str:
        return " ".join(WORDS[each] for each in token_ids if each != END)

    def demonstration(self, task: Task) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return (token ids, mask) of the reference; mask 1 on what the policy writes."""
        body = tool_task(task)
        calls = [found.groups() for each in body.turns[0].reference if (found := _CALL.match(each))]
        (first, thing), *steps = calls
        said = f"{first} {thing}" + "".join(f" {mode} {tool}" for tool, mode in steps)
        parts = (
            (self.opening(body), 0),
            ((*_ids(said), END), 1),
            (self.observation((OK,)), 0),
            ((END,), 1),
        )
        ids = tuple(token for tokens, _ in parts for token in tokens)
        return ids, tuple(mask for tokens, mask in parts for _ in tokens)


def _ids(text: str) -> tuple[int, ...]:
    return tuple(IDS[word] for word in text.split())
