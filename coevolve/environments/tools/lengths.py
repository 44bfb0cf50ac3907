"""Measures how long the conversations of a task set are, in a model's own tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from coevolve.environments.tools.interfaces import Renderer
from coevolve.environments.tools.task import ToolTask, tool_task
from protocols.tasks import Task


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """The longest of each kind, in tokens."""

    prompts: int
    """All prompts of one task: tools, instructions, and no answer."""

    conversation: int
    """A task with the calls of its reference and their answers."""

    message: int
    """One message of a reference, with its end; 0 without references."""

    answer: int
    """What a tool answers to one message; 0 without references."""

    turns: int


def lengths_of(renderer: Renderer, tasks: Sequence[Task], *, references: bool) -> Lengths:
    """Return the longest prompts, conversations and messages of ``tasks``, at least one.

    ``references`` says whether the tasks have calls whose results were recorded.
    """
    bodies = [tool_task(task) for task in tasks]
    prompts = [_prompts(renderer, body) for body in bodies]
    played = [_played(renderer, task) for task in tasks] if references else []
    return Lengths(
        prompts=max(prompts),
        conversation=max([sum(size for size, _ in each) for each in played] or prompts),
        message=max((size for each in played for size, own in each if own), default=0),
        answer=max((size for each in played for size, own in each[1:] if not own), default=0),
        turns=max(len(body.turns) for body in bodies),
    )


def _prompts(renderer: Renderer, body: ToolTask) -> int:
    later = range(1, len(body.turns))
    opening = len(renderer.opening(body))
    return opening + sum(len(renderer.instruction(body, turn)) for turn in later)


def _played(renderer: Renderer, task: Task) -> list[tuple[int, bool]]:
    """Return the stretches of a demonstration: tokens, and whether the policy writes them."""
    _, mask = renderer.demonstration(task)
    return [(len(list(stretch)), bool(own)) for own, stretch in groupby(mask)]
