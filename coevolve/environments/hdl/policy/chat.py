"""A `StepRenderer` for any model folder with a chat template.

The model's own template renders the prompt once; the policy's sampled tokens are never tokenized
again.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from coevolve.environments.hdl.config import HdlConfig
from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.policy import prompts
from coevolve.environments.hdl.policy.task import CoverageTask
from coevolve.environments.hdl.policy.transition import ChatText, Graded
from coevolve.environments.hdl.simulate.messages import Point, Submission
from coevolve.environments.sdk import SENTINEL, ChatTemplate, opens_thinking, spoken
from protocols.config import ChatConfig

_ROLES: tuple[tuple[Literal["user", "assistant"], ...], ...] = (
    ("user", "assistant", "user"),
    ("user",),
)
"""Roles of a prompt's messages after the first. The longer tuple comes first, because the pattern
of the shorter one matches any text."""


class ChatStepRenderer:
    """Renders a step on a design as a chat of two or four messages and one answer."""

    def __init__(self, template: ChatTemplate, chat: ChatConfig, hdl: HdlConfig) -> None:
        self._template = template
        self._chat = chat
        self._hdl = hdl

    @classmethod
    def load(cls, folder: Path, chat: ChatConfig, hdl: HdlConfig) -> "ChatStepRenderer":
        """Return the renderer for a model folder. Raises ConfigError."""
        variables = {"enable_thinking": chat.thinking}
        return cls(ChatTemplate.load(folder, variables=variables), chat, hdl)

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The tokens at the end of an assistant message, and the model's end-of-text tokens."""
        return self._template.stop_ids

    def grammar(self, task: CoverageTask) -> None:
        """Return None: a chat model writes without a grammar."""

    def prompt(
        self, task: CoverageTask, design: Design, points: Sequence[Point]
    ) -> tuple[int, ...]:
        return self._template.opening(_chat(self.messages(task, design, points)))

    def shown(self, task: CoverageTask, prompt_ids: Sequence[int]) -> tuple[ChatText, ...]:
        """Return the messages of a recorded prompt, with special tokens in them as plain text.

        Raises ValueError where the messages cannot be separated.
        """
        system = prompts.opening(task.state, task.form)
        prompt = self._template.decode(prompt_ids)
        for roles in _ROLES:
            marks = [f"{SENTINEL}{place}" for place in range(len(roles))]
            texts = zip(roles, marks, strict=True)
            marked = (system, *(ChatText(role=role, text=text) for role, text in texts))
            pattern = re.escape(self._template.render(_chat(marked), prompts=True))
            for mark in marks:
                pattern = pattern.replace(mark, "(.*)")
            found = re.fullmatch(pattern, prompt, re.DOTALL)
            if found:
                texts = zip(roles, found.groups(), strict=True)
                return (system, *(ChatText(role=role, text=text) for role, text in texts))
        raise ValueError(
            f"task {task.task_id}: its prompt needs to read as the chat template of the run's "
            f"policy writes it, found {prompt[:80]!r}; restore the model folder that the run used"
        )

    def messages(
        self, task: CoverageTask, design: Design, points: Sequence[Point], *, rules: bool = False
    ) -> tuple[ChatText, ...]:
        """Return the prompt's messages; ``rules`` adds rules of syntax, for a teacher."""
        limit = self._hdl.feedback_characters
        return prompts.step_prompt(task, design, points, limit=limit, rules=rules)

    def written(self, answer: str) -> tuple[int, ...]:
        """Return the tokens that the policy would have to sample to give the answer."""
        return self._template.answer(answer)

    def said(self, token_ids: Sequence[int]) -> str:
        """Return the text of the policy's sampled tokens, without the end of the message."""
        ends = token_ids[-1:] and token_ids[-1] in self._template.stop_ids
        return self._template.decode(token_ids[:-1] if ends else token_ids)

    def read(self, task: CoverageTask, token_ids: Sequence[int]) -> Submission:
        thinking = opens_thinking(self._template.prompt)
        text = spoken(self._template.said(token_ids), thinking=thinking)
        base = task.state.testbench if isinstance(task.state, Graded) else ""
        return prompts.extract(text, task.form, base)


def _chat(messages: Sequence[ChatText]) -> list[dict[str, str]]:
    return [{"role": each.role, "content": each.text} for each in messages]
