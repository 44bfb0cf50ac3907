"""The formats of a synthesizer model's answers about code (`tools.synthesis.answers` for calls)."""

from typing import Annotated

import msgspec

from coevolve.environments.tools.synthesis.answers import (
    MAX_CALLS,
    MAX_TASKS,
    AbstractedTask,
    AbstractedTurn,
    Move,
    Rebuilt,
    Text,
    read_as,
)

MAX_BLOCK_CHARS = 8_000

Block = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_BLOCK_CHARS)]
Blocks = Annotated[tuple[Block, ...], msgspec.Meta(min_length=1, max_length=MAX_CALLS)]


class _Step(msgspec.Struct, frozen=True):
    """One block of an exploration, or its end."""

    reason: str = ""
    code: Annotated[str, msgspec.Meta(max_length=MAX_BLOCK_CHARS)] = ""
    done: bool = False

    def __post_init__(self) -> None:
        """Refuse a step that has neither or both."""
        if self.done == bool(self.code.strip()):
            raise ValueError('needs either "code" with one block or "done": true')


class _Task(msgspec.Struct, frozen=True):
    """A task that a model made from an exploration."""

    instruction: Text
    code: Blocks
    description: str = ""


class _Tasks(msgspec.Struct, frozen=True):
    tasks: tuple[_Task, ...]


class _Solution(msgspec.Struct, frozen=True):
    code: Blocks
    finished: bool = True


def read_step(answer: str) -> Move:
    """Return the step in ``answer``. Raises UnusableAnswerError."""
    step = read_as(answer, _Step)
    return Move(reason=step.reason, action=step.code, done=step.done)


def read_code_tasks(answer: str) -> tuple[AbstractedTask, ...]:
    """Return the first `MAX_TASKS` tasks in ``answer``. Raises UnusableAnswerError."""
    return tuple(
        AbstractedTask(
            turns=(AbstractedTurn(instruction=task.instruction, calls=task.code),),
            description=task.description,
        )
        for task in read_as(answer, _Tasks).tasks[:MAX_TASKS]
    )


def read_solution(answer: str, turns: int) -> Rebuilt:
    """Return the blocks in ``answer``; a task has one turn. Raises UnusableAnswerError."""
    del turns
    solution = read_as(answer, _Solution)
    return Rebuilt(calls_by_turn=(solution.code,), finished=solution.finished)
