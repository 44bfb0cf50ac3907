"""A reference of code among decoys: mutants that the verifier refuses, in the same form."""

import ast
import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from coevolve.environments.appworld.mutants import mutants_of
from coevolve.environments.tools.gates.contrast import Contrast, mixed
from coevolve.environments.tools.gates.decoys import MOST, TRIED
from coevolve.environments.tools.gates.mutants import Turns
from coevolve.environments.tools.gates.trials import Trials, passes
from coevolve.environments.tools.task import ToolTask
from protocols.evolution import Candidate


async def among_blocks(candidate: Candidate, body: ToolTask, trials: Trials) -> Contrast:
    """Return the reference among at most `MOST` decoys. Raises SimulatorError."""
    rng = Random(candidate.candidate_id)  # noqa: S311, no secret
    (reference,) = body.references
    mutants = [
        each.blocks for each in mutants_of(reference, rng, TRIED) if each.kind != "add_write"
    ]
    tried = await asyncio.gather(*(trials.play((blocks,), body) for blocks in mutants))
    others = [
        (blocks, found) for blocks, found in zip(mutants, tried, strict=True) if not passes(found)
    ]
    others.sort(key=lambda each: any(seen.failed for seen in each[1].turns[0].observed))
    decoys = dict.fromkeys(_written(blocks) for blocks, _ in others)
    decoys.pop(_written(reference), None)
    return mixed(_written(reference), tuple(decoys)[:MOST], rng)


def _written(blocks: Sequence[str]) -> Turns:
    """Return blocks in their normal form: no comments, and no ``pass`` beside other statements."""
    return (tuple(ast.unparse(_Needed().visit(ast.parse(block))) for block in blocks),)


class _Needed(ast.NodeTransformer):
    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        body: Any = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [each for each in body if not isinstance(each, ast.Pass)]  # pyright: ignore[reportUnknownVariableType]
            node.body = kept or body[:1]  # type: ignore[attr-defined]
        return node
