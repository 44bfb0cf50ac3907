"""Builds the gates of tasks whose references are code; the synthesizer is that of all tools."""

from collections.abc import Callable, Sequence
from functools import partial

from coevolve.environments.appworld.documents import ApiDocuments
from coevolve.environments.appworld.gates.contrast import among_blocks
from coevolve.environments.appworld.gates.gates import CodeGates
from coevolve.environments.appworld.synthesis.questions import code_questions
from coevolve.environments.sdk import PartContext
from coevolve.environments.tools.evolution import (
    instruction_reader,
    reader,
    trial_pool,
)
from protocols.interfaces import SimulatorService


def code_gates(
    context: PartContext,
    simulators: Sequence[SimulatorService],
    documents: ApiDocuments,
    is_training: Callable[[str], bool],
) -> CodeGates:
    """Return the gates, which execute candidates."""
    config = context.config
    opened = partial(
        instruction_reader,
        config,
        questions=code_questions(documents, config.rollout.max_calls_per_turn),
        options=among_blocks,
    )
    return CodeGates(
        trial_pool(simulators),
        documents=documents,
        is_training=is_training,
        blocks=config.rollout.max_calls_per_turn,
        reader=reader(context, opened),
    )
