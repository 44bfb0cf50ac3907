"""The questions to a synthesizer's model in one kind of environment, and how answers are read.

Questions about reflection are the same everywhere (`tools.synthesis.prompt_parts`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coevolve.environments.tools.gates.mutants import Turns
from coevolve.environments.tools.synthesis import answers, prompts
from coevolve.environments.tools.synthesis.answers import AbstractedTask, Move, Rebuilt
from coevolve.environments.tools.synthesis.brief import Start
from coevolve.environments.tools.task import ToolTask
from coevolve.llm.client import PromptMessage
from protocols.evolution import Candidate, Reflection
from protocols.rollouts import Action
from protocols.synthesis import Brief

Chat = tuple[PromptMessage, ...]


@dataclass(frozen=True, kw_only=True)
class Questions:
    """What a model is asked. A reader of answers raises UnusableAnswerError."""

    explore: Callable[[Brief, Reflection, Start, Sequence[tuple[Move, Action]]], Chat]
    """Asks for the next step of an exploration after those that were taken."""

    read_move: Callable[[str], Move]

    abstract: Callable[[Brief, Start, Sequence[Action]], Chat]
    """Asks for tasks made from an exploration."""

    read_tasks: Callable[[str], tuple[AbstractedTask, ...]]

    judge: Callable[[Candidate], Chat]
    """Asks whether a candidate is sound."""

    contrast: Callable[[ToolTask, Sequence[Turns]], Chat]
    """Asks which of several options a task asks for."""

    rebuild: Callable[[ToolTask, Sequence[Action]], Chat]
    """Asks for the calls of a task, after those that were carried out."""

    read_rebuilt: Callable[[str, int], Rebuilt]
    """Reads the calls of so many turns."""


CALLS = Questions(
    explore=prompts.explore,
    read_move=answers.read_move,
    abstract=prompts.abstract,
    read_tasks=answers.read_tasks,
    judge=prompts.judge,
    contrast=prompts.contrast,
    rebuild=prompts.rebuild,
    read_rebuilt=answers.read_rebuilt,
)
"""The questions about calls of tools."""
