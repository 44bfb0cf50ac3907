"""A `coevolve.environments.tools.interfaces.Renderer` whose calls are blocks of Python code.

Messages are those of the model's own chat template; sampled tokens are never tokenised again. Every
message of the policy is one block: one without a block is executed as an empty one, whose output
says so. So only a block that completes the task ends it.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from coevolve.environments.appworld.blocks import block_in, fenced
from coevolve.environments.appworld.prompt import opening_text, output_text
from coevolve.environments.appworld.source import Extra
from coevolve.environments.sdk import ChatTemplate, boundary, opens_thinking, spoken
from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.llm.reading import UnfinishedThinkingError
from coevolve.models.chat_template import LOAD_S, Message
from coevolve.models.deadline import within
from coevolve.models.model_files import DOWNLOAD_AGAIN
from protocols.config import ChatConfig
from protocols.errors import ConfigError
from protocols.tasks import Task


class CodeRenderer:
    """Renders conversations with a model's chat template."""

    def __init__(self, template: ChatTemplate, chat: ChatConfig) -> None:
        """Raise ConfigError if the template cannot be used."""
        self._template = template
        self._system = chat.system
        self._thinking = opens_thinking(template.prompt)
        self._after("")

    @classmethod
    def load(cls, folder: Path, chat: ChatConfig) -> "CodeRenderer":
        """Return the renderer for a model folder. Raises ConfigError."""
        template = ChatTemplate.load(folder, variables={"enable_thinking": chat.thinking})
        what = f"policy.model: {folder} needs a usable chat template"
        with boundary(ConfigError, what, DOWNLOAD_AGAIN), within(LOAD_S):
            return cls(template, chat)

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The end of an assistant message, and the model's end-of-text tokens."""
        return self._template.stop_ids

    def opening(self, task: ToolTask) -> tuple[int, ...]:
        extra = msgspec.json.decode(task.extra, type=Extra)
        text = opening_text(extra, task.turns[0].instruction)
        head: list[Message] = [{"role": "system", "content": self._system}] if self._system else []
        messages = [*head, _user(text)]
        return self._template.opening(messages)

    def instruction(self, task: ToolTask, turn: int, said: Sequence[int] = ()) -> tuple[int, ...]:
        return self._after(task.turns[turn].instruction, said)

    def observation(self, results: Sequence[str], said: Sequence[int] = ()) -> tuple[int, ...]:
        """Return the outputs of blocks, up to the policy's next word."""
        return self._after("\n".join(map(output_text, results)), said)

    def parse(self, token_ids: Sequence[int], classes: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the block of a message; an empty text if it has none. Raises ValueError."""
        del classes
        said = self._template.said(token_ids)
        try:
            text = spoken(said, thinking=self._thinking)
        except UnfinishedThinkingError:
            return ("",)
        return (self._template.unmarked(block_in(text)),)

    def words(self, token_ids: Sequence[int]) -> str:
        return self._template.unmarked(self._template.said(token_ids))

    def demonstration(self, task: Task) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return (token ids, mask) of the reference, one block per message.

        The mask is 1 on the messages with blocks, including their end tokens.
        """
        body = tool_task(task)
        pieces: list[tuple[tuple[int, ...], int]] = [(self.opening(body), 0)]
        for number, turn in enumerate(body.turns):
            if number:
                pieces.append((self.instruction(body, number), 0))
            for block, result in zip(turn.reference, turn.results, strict=True):
                said: Message = {"role": "assistant", "content": fenced(block)}
                pieces.append((self._template.written(said), 1))
                pieces.append((self.observation((result,)), 0))
            pieces.pop()
        ids = tuple(token for tokens, _ in pieces for token in tokens)
        return ids, tuple(own for tokens, own in pieces for _ in tokens)

    def _after(self, text: str, said: Sequence[int] = ()) -> tuple[int, ...]:
        return self._template.after([_user(text)], said)


def _user(text: str) -> Message:
    return {"role": "user", "content": text}
