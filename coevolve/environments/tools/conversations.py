"""Checks that a policy can hold the conversations of a task set: they fit, references are read.

The same check is part of `coevolve config check`, of `coevolve environment check` with a model, of
a dry run and of a start. It renders what an attempt would render: the opening and each later
instruction. A prompt is measured only where a bound does not settle it, because openings that list
many tools take long.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby

import msgspec

from coevolve.base.foreign import shown
from coevolve.environments.tools.chat.tools import named_arguments
from coevolve.environments.tools.chat.typed import alike
from coevolve.environments.tools.interfaces import Renderer
from coevolve.environments.tools.task import ToolTask, ToolTurn, tool_task
from protocols.config import RolloutConfig
from protocols.errors import ConfigError
from protocols.tasks import Task

_STUB = "Please."
"""An instruction that stands for others, so that an opening is rendered once for many tasks."""

_SLACK = 64
"""Tokens that the words around another instruction may take in addition."""


def check_conversations(
    renderer: Renderer,
    tasks: Sequence[Task],
    limits: RolloutConfig,
    *,
    references: bool,
    imitated: bool = True,
) -> None:
    """Raise ConfigError if prompts or messages do not fit, or a reference is not read back.

    ``references`` says whether references are checked, too: that what the template writes for them
    is read as their calls. If they are ``imitated``, a policy has to be allowed to write messages
    as long as theirs.
    """
    lengths = _Lengths(renderer, limits.max_tokens)
    too_long = {task.task_id: size for task in tasks if (size := lengths.of(tool_task(task)))}
    if too_long:
        task_id, size = max(too_long.items(), key=lambda each: each[1])
        raise ConfigError(
            "rollout.max_tokens: needs room for all prompts of a task and a message after each, "
            f"found {limits.max_tokens} for the {size} tokens of the prompts of task {task_id} "
            f"({len(too_long)} of {len(tasks)} tasks do not fit); set it to "
            f"{size + limits.max_call_tokens} or more, or shorten the prompts"
        )
    if references:
        sizes = {task.task_id: _checked_reference(renderer, task) for task in tasks}
        if imitated:
            _check_messages(sizes, limits)


class _Lengths:
    """Finds tasks whose prompts are too long."""

    def __init__(self, renderer: Renderer, most: int) -> None:
        self._renderer = renderer
        self._most = most
        self._bases: dict[ToolTask, int] = {}

    def of(self, body: ToolTask) -> int:
        """Return the tokens of all prompts of a task if they leave no room, else 0."""
        turns = len(body.turns)
        if self._bound(body) + turns <= self._most:
            return 0
        found = len(self._renderer.opening(body))
        found += sum(len(self._renderer.instruction(body, turn)) for turn in range(1, turns))
        return found if found + turns > self._most else 0

    def _bound(self, body: ToolTask) -> int:
        """Return a number that the tokens of the prompts do not exceed; a token has a byte."""
        stub = _stub(body)
        if stub not in self._bases:
            later = range(1, len(body.turns))
            self._bases[stub] = len(self._renderer.opening(stub)) + sum(
                len(self._renderer.instruction(stub, turn)) for turn in later
            )
        own = sum(len(turn.instruction.encode(errors="replace")) + _SLACK for turn in body.turns)
        return self._bases[stub] + own


def _stub(body: ToolTask) -> ToolTask:
    """Return the task with other instructions, and without calls and a world."""
    turns = tuple(
        msgspec.structs.replace(turn, instruction=_STUB, reference=(), results=())
        for turn in body.turns
    )
    return msgspec.structs.replace(body, turns=turns, world="")


def _check_messages(sizes: Mapping[str, int], limits: RolloutConfig) -> None:
    """Raise ConfigError if a policy may not write the longest message of each task's reference."""
    most = limits.max_call_tokens
    task_id, size = max(sizes.items(), key=lambda each: each[1], default=("", 0))
    if size > most:
        count = sum(each > most for each in sizes.values())
        raise ConfigError(
            "rollout.max_call_tokens: needs room for each message of a reference, as the policy "
            f"writes it with its end, found {most} for the {size} tokens of a message of task "
            f"{task_id} ({count} of {len(sizes)} tasks do not fit); set it to {size} or more, or "
            "choose a shorter form with policy.chat.tools"
        )


def _checked_reference(renderer: Renderer, task: Task) -> int:
    """Return the tokens of the longest message of a task's reference; 0 without references.

    Raises ConfigError unless each message is read as the call that it makes.
    """
    body, longest = tool_task(task), 0
    for turn in body.turns:
        messages = _messages(renderer, task, body, turn)
        longest = max(longest, *map(len, messages), 0)
        for call, message in zip(turn.reference, messages, strict=False):
            reason = _why_unread(renderer, message, call, body)
            if reason:
                raise ConfigError(
                    f"environment: task {task.task_id} needs a reference that the policy can write "
                    f"in the form of its chat template, but what the template writes for "
                    f"{shown(call)} {reason}; write the call with other values, or choose another "
                    "form with policy.chat.tools"
                )
    return longest


def _messages(
    renderer: Renderer, task: Task, body: ToolTask, turn: ToolTurn
) -> list[tuple[int, ...]]:
    """Return the messages of a demonstration of one turn. Raises ConfigError with the task."""
    empty = ("",) * len(turn.reference)
    alone = msgspec.structs.replace(turn, instruction=_STUB, results=empty, revealed=())
    played = msgspec.structs.replace(body, turns=(alone,), world="")
    encoded = msgspec.Raw(msgspec.msgpack.encode(played))
    try:
        ids, mask = renderer.demonstration(msgspec.structs.replace(task, body=encoded))
    except (ConfigError, ValueError) as error:
        raise ConfigError(f"environment: task {task.task_id}: {error}") from error
    stretches = groupby(zip(ids, mask, strict=True), key=lambda each: each[1])
    return [tuple(token for token, _ in stretch) for own, stretch in stretches if own]


def _why_unread(renderer: Renderer, message: tuple[int, ...], call: str, body: ToolTask) -> str:
    """Return why a message is not read as the call; empty if it is."""
    try:
        made = renderer.parse(message, body.classes)
    except ValueError as error:
        return f"cannot be read: {error}"
    if len(made) == 1 and _same(made[0], call, body):
        return ""
    return f"is read as {shown(', '.join(made))}" if made else "is read as words"


def _same(made: str, call: str, body: ToolTask) -> bool:
    """Return whether two texts are the same call, with the same values of the same types."""
    if made.strip() == call.strip():
        return True
    try:
        (tool, one), (other_tool, other) = (
            named_arguments(text, body.classes) for text in (made, call)
        )
    except ValueError:
        return False
    return tool == other_tool and alike(one, other)
