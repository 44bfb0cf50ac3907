"""Builds the gates of tasks whose references are code; the synthesizer is that of all tools."""

import ast
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from coevolve.environments.appworld.documents import ApiDocuments
from coevolve.environments.appworld.gates.gates import CodeGates
from coevolve.environments.appworld.mutants import mutants_of
from coevolve.environments.appworld.synthesis.questions import code_questions
from coevolve.environments.sdk import PartContext
from coevolve.environments.tools.evolution import (
    instruction_reader,
    reader,
    trial_pool,
)
from coevolve.environments.tools.gates.contrast import Contrast, mixed
from coevolve.environments.tools.gates.decoys import MOST, TRIED, refused
from coevolve.environments.tools.gates.mutants import Turns
from coevolve.environments.tools.gates.trials import Trials
from coevolve.environments.tools.task import ToolTask
from protocols.evolution import Candidate
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


async def among_blocks(candidate: Candidate, body: ToolTask, trials: Trials) -> Contrast:
    """Return the reference among at most `MOST` decoys. Raises SimulatorError."""
    rng = Random(candidate.candidate_id)  # noqa: S311, no secret
    (reference,) = body.references
    mutants = [
        (each.blocks,) for each in mutants_of(reference, rng, TRIED) if each.kind != "add_write"
    ]
    every = dict.fromkeys(_written(blocks) for (blocks,) in await refused(mutants, body, trials))
    decoys = [each for each in every if each != _written(reference) and not _shows_gap(each)]
    return mixed(_written(reference), decoys[:MOST], rng)


def _written(blocks: Sequence[str]) -> Turns:
    """Return blocks in their normal form, without comments and dropped statements."""
    trees = [ast.parse(block) for block in blocks]
    for tree in trees:
        tree.body = [each for each in tree.body if not isinstance(each, ast.Pass)]
    return (tuple(ast.unparse(tree) for tree in trees if tree.body),)


def _shows_gap(turns: Turns) -> bool:
    """Return whether the form of a mutant tells that a statement was dropped from it."""
    (blocks,) = turns
    return any(isinstance(node, ast.Pass) for each in blocks for node in ast.walk(ast.parse(each)))
