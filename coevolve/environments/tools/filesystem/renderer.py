"""The tiny policy's format: instructions and answers as tokens, and the policy's tokens as calls.

    <u>instruction<a>call<e><o>answer<a>call<e><o>answer<a><d><u>instruction<a>...

The policy writes the tokens from ``<a>`` up to ``<e>`` (a call) or ``<d>`` (the end of its turn);
it does not write the others. A tool's answer is shortened to its first 16 tokens, and an error to
one word. The prompt does not list the tools: the policy has learned them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from tokenizers import Tokenizer

from coevolve.environments.tools.filesystem.tokenizer import (
    CALL,
    DONE,
    END,
    OBSERVATION,
    SPECIAL,
    USER,
    VOCABULARY,
    load_tokenizer,
)
from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.models.tokenizer_file import TOKENIZER
from protocols.errors import ConfigError
from protocols.tasks import Task

OBSERVATION_TOKENS = 16

_NEEDS = (
    "give a folder with a chat template, or a tiny policy (coevolve/models/tiny/README.md); only "
    "a tiny one makes tasks itself; for others synthesizer.model needs the kind endpoint, and "
    "`attach swap-synthesizer` needs --base-url"
)


class TinyRenderer:
    """A `coevolve.environments.tools.interfaces.Renderer`."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.encode = lru_cache(maxsize=1 << 16)(self._encode)
        self.piece = lru_cache(maxsize=VOCABULARY)(self._piece)

    @classmethod
    def load(cls, folder: Path) -> "TinyRenderer":
        """Return the renderer for a model folder.

        Raises ConfigError if its tokenizer does not have the tiny policy's format.
        """
        if not (folder / TOKENIZER).is_file():
            raise ConfigError(f"policy.model: {folder} has no {TOKENIZER}; {_NEEDS}")
        tokenizer = load_tokenizer(folder)
        found = tuple(map(tokenizer.id_to_token, range(len(SPECIAL))))
        if found != SPECIAL:
            raise ConfigError(
                f"policy.model: {folder} is no tiny policy: its tokenizer begins with "
                f"{found[0]!r}, not with {SPECIAL[0]!r}; {_NEEDS}"
            )
        return cls(tokenizer)

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The end of a call and the end of a turn."""
        return (END, DONE)

    def opening(self, task: ToolTask) -> tuple[int, ...]:
        return self.instruction(task, 0)

    def instruction(self, task: ToolTask, turn: int, said: Sequence[int] = ()) -> tuple[int, ...]:
        return (USER, *self.encode(task.turns[turn].instruction), CALL)

    def observation(self, results: Sequence[str], said: Sequence[int] = ()) -> tuple[int, ...]:
        answers = (self.encode(spoken(result))[:OBSERVATION_TOKENS] for result in results)
        return (*(token for answer in answers for token in (OBSERVATION, *answer)), CALL)

    def parse(self, token_ids: Sequence[int], classes: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the call, or nothing for the end of the turn. Raises ValueError for other text."""
        del classes
        ids = tuple(token_ids)
        if ids == (DONE,):
            return ()
        if len(ids) < 2 or ids[-1] != END or min(ids[:-1]) < len(SPECIAL):
            raise ValueError(
                f"the policy needs to write a call and <e>, or <d> alone; got {self.decode(ids)!r}"
            )
        return (self.decode(ids[:-1]),)

    def words(self, token_ids: Sequence[int]) -> str:
        """Return an empty text: this policy writes only calls."""
        return ""

    def demonstration(self, task: Task) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return (token ids, mask) of the reference; mask 1 on calls and ends. Needs results."""
        ids: list[int] = []
        mask: list[int] = []

        def say(tokens: Iterable[int], *, policy: bool) -> None:
            before = len(ids)
            ids.extend(tokens)
            mask.extend([int(policy)] * (len(ids) - before))

        body = tool_task(task)
        for number, turn in enumerate(body.turns):
            say(self.instruction(body, number), policy=False)
            for call, result in zip(turn.reference, turn.results, strict=True):
                say((*self.encode(call), END), policy=True)
                say(self.observation((result,)), policy=False)
            say((DONE,), policy=True)
        return tuple(ids), tuple(mask)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of tokens, including special tokens."""
        return self._tokenizer.decode(list(token_ids), skip_special_tokens=False)

    def _piece(self, token_id: int) -> str:
        """Return the text of one token."""
        return self.decode((token_id,))

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text).ids)


def spoken(result: str) -> str:
    """Return a tool's answer in the shortened form that the policy reads."""
    if result == "None":
        return "ok"
    if result.startswith("Error"):
        return "error"
    answer = _object(result)
    if answer is None:
        return result
    if "error" in answer:
        return "error"
    return " ; ".join(_leaves(answer)).replace("\n", " | ")


def _object(result: str) -> Mapping[str, Any] | None:
    try:
        decoded = json.loads(result)
    except (ValueError, RecursionError):
        return None
    return cast(Mapping[str, Any], decoded) if isinstance(decoded, dict) else None


def _leaves(answer: Mapping[str, Any]) -> list[str]:
    leaves: list[str] = []
    for value in answer.values():
        leaves.extend(map(str, cast(list[Any], value)) if isinstance(value, list) else [str(value)])
    return leaves
