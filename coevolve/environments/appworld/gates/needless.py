"""Leaves out the statements of a reference that its end does not need.

A model that explored an app likes to look once more, or to do what was done already. If the end
state and the answer are the same without a statement that calls an API, the statement goes.
"""

import ast
import asyncio
from collections.abc import Sequence
from typing import cast

from coevolve.environments.appworld.blocks import apis_in
from coevolve.environments.appworld.mutants import Mutant, dropped
from coevolve.environments.appworld.source import COMMON
from coevolve.environments.tools.gates.refusal import RefusedError
from coevolve.environments.tools.gates.trials import Trials, passes

MOST_TRIED = 6
"""Statements with calls that are left out one by one."""

MOST_LEFT_OUT = 4
"""Statements that are left out of a reference; one with more of them is refused."""


async def passing(mutants: Sequence[Mutant], trials: Trials) -> list[Mutant]:
    """Return the mutants that the verdict takes for the reference. Raises SimulatorError."""
    tried = await asyncio.gather(*(trials.play((each.blocks,)) for each in mutants))
    return [each for each, found in zip(mutants, tried, strict=True) if passes(found)]


async def without_needless(blocks: tuple[str, ...], trials: Trials) -> tuple[str, ...]:
    """Return a reference with the same end, without statements that it does not need.

    Raises RefusedError if it cannot do without each of them, or has too many; and SimulatorError.
    """
    for _ in range(MOST_LEFT_OUT):
        needless = await passing(_shorter(blocks), trials)
        if not needless:
            return blocks
        shorter = [_without_gaps(blocks, each.blocks) for each in needless]
        played = await asyncio.gather(*(trials.play((each,)) for each in shorter))
        works = [
            each
            for each, found in zip(shorter, played, strict=True)
            if passes(found) and not any(seen.failed for seen in found.turns[0].observed)
        ]
        if not works:
            raise RefusedError("superfluous", needless[0].spoilt)
        blocks = min(works, key=lambda each: len("".join(each)))
    if needless := await passing(_shorter(blocks), trials):
        raise RefusedError("superfluous", needless[0].spoilt)
    return blocks


def _shorter(blocks: Sequence[str]) -> Sequence[Mutant]:
    """Return the reference without each of its statements that a task is about."""
    every = dropped(list(map(ast.parse, blocks)))
    return [each for each in every if _is_work(each.spoilt)][:MOST_TRIED]


def _is_work(statement: str) -> bool:
    return any(
        not name.startswith(COMMON) and not name.endswith(".login") for name in apis_in(statement)
    )


def _without_gaps(blocks: Sequence[str], shorter: Sequence[str]) -> tuple[str, ...]:
    """Return the shorter blocks as they were written, without the mark of what was left out."""
    kept = [
        block if ast.unparse(ast.parse(block)) == ast.unparse(ast.parse(other)) else _closed(other)
        for block, other in zip(blocks, shorter, strict=True)
    ]
    return tuple(filter(None, kept))


def _closed(block: str) -> str:
    """Return a block without needless `pass`; empty if it has nothing else."""
    tree = ast.parse(block)
    for node in ast.walk(tree):
        if isinstance(found := getattr(node, "body", None), list):
            body = cast("list[ast.stmt]", found)
            body[:] = [each for each in body if not isinstance(each, ast.Pass)] or body[:1]
    return "" if all(isinstance(each, ast.Pass) for each in tree.body) else ast.unparse(tree)
