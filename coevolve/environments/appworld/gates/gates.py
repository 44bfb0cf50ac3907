"""The gates that a candidate whose reference is code passes alone, in the order of `gates.order`.

First what the text shows, then what executions show. The verdict on a task is that an attempt ends
in the reference's state, so a mutant of the reference passes only if it does the same work. A
reference with many such mutants does hardly anything, or hides what it does among statements
without effect.
"""

import ast
import re
import sys
from collections.abc import Callable, Sequence
from random import Random

import msgspec

from coevolve.environments.appworld.blocks import MAX_CHARS, UNREADABLE, apis_in
from coevolve.environments.appworld.documents import ApiDocuments
from coevolve.environments.appworld.gates.literals import (
    Literal,
    all_values,
    answers,
    gives_up,
    is_given,
    is_known,
    printing,
    told_literals,
)
from coevolve.environments.appworld.gates.needless import passing, without_needless
from coevolve.environments.appworld.gates.wording import (
    invented,
    other_app,
    told_answer,
    unanswered,
)
from coevolve.environments.appworld.mutants import Mutant, literals, mutants_of
from coevolve.environments.appworld.session import NOT_COMPLETED
from coevolve.environments.appworld.source import SET, Extra, WorldOf, skills_of
from coevolve.environments.tools.commands import Failed, Tried, with_results
from coevolve.environments.tools.gates.executed import ExecutedGates
from coevolve.environments.tools.gates.form import MAX_INSTRUCTION_CHARS
from coevolve.environments.tools.gates.hygiene import unclean
from coevolve.environments.tools.gates.instructions import InstructionReader
from coevolve.environments.tools.gates.refusal import RefusedError, refuse
from coevolve.environments.tools.gates.trials import Trials, passes
from coevolve.environments.tools.interfaces import Simulator
from coevolve.environments.tools.task import ToolTask, ToolTurn
from coevolve.validation.gates import Sound
from protocols.tasks import body_of

MUTANTS = 6
"""Spoilt statements and literals of a reference that are tried. Half of them have to fail; the
others may do the same work."""

MOST_DEPTH = 80
"""Levels of a block's syntax."""

SIDE_EFFECTS = ("change_answer", "add_write")
"""Mutants that have to fail; one of each is tried."""

IDLE = ("apis.supervisor.complete_task()",)

HIDDEN = frozenset({"open", "eval", "exec", "compile", "getattr", "globals", "vars", "__import__"})
"""Functions that no reference needs, and with which it could read something else than the apps."""

OTHER_TASK = "supervisor.show_active_task"
"""Shows the task for which the world was made, and not the candidate."""

_APIS = re.compile(r"\bapis\b")


class CodeGates(ExecutedGates):
    """`coevolve.validation.gates.Gates` that execute the code of a candidate."""

    def __init__(
        self,
        simulator: Simulator,
        *,
        documents: ApiDocuments,
        is_training: Callable[[str], bool],
        blocks: int,
        reader: InstructionReader | None = None,
    ) -> None:
        """Refuse references of more than ``blocks`` blocks.

        ``is_training`` says whether a task, by its id, is of the training split.
        """
        super().__init__(simulator, self._sound, reader)
        self._documents = documents
        self._is_training = is_training
        self._blocks = blocks

    async def _sound(self, body: ToolTask, trials: Trials) -> Sound:
        self._check_text(body)
        (turn,) = body.turns
        played = await trials.play(body.references)
        refuse("replay_failed", _replay_fault(turn.reference, played))
        refuse("not_deterministic", _difference(played, await trials.play(body.references)))
        refuse("no_effect", _idle(await trials.play((IDLE,))))
        blocks = await without_needless(turn.reference, trials)
        if blocks != turn.reference:
            turn = ToolTurn(instruction=turn.instruction, reference=blocks)
            body = msgspec.structs.replace(body, turns=(turn,))
            played = await trials.play(body.references, body)
            refuse("description_invents", invented(turn.instruction, all_values(blocks)))
        await _check_mutants(blocks, trials)
        refuse("description_omits", await self._omitted(body, trials))
        refuse("description_answers", await _answered(body, trials))
        return Sound(body=body_of(with_results(body, played)), skills=skills_of(blocks))

    def _check_text(self, body: ToolTask) -> None:
        """Raise RefusedError for what can be refused unexecuted."""
        refuse("malformed", self._malformed(body))
        refuse("unclean", unclean(body.turns, self._documents.tools))
        blocks, instruction = body.turns[0].reference, body.turns[0].instruction
        refuse("unknown_tool", self._unknown(blocks))
        refuse("reads_hidden", _hidden(blocks))
        found = answers(blocks)
        given = next(map(ast.unparse, filter(is_given, found)), "")
        refuse("answer_given", given and f"the code does not find its answer out: {given}")
        refuse("unanswered", unanswered(instruction, answers=bool(found)))
        refuse("replay_failed", "the code gives the task up" if gives_up(blocks) else "")
        used = {name.partition(".")[0] for block in blocks for name in apis_in(block)}
        refuse("description_invents", other_app(instruction, self._documents.apps, used))
        refuse("description_invents", invented(instruction, all_values(blocks)))

    def _malformed(self, body: ToolTask) -> str:
        if len(body.turns) != 1 or body.withheld or body.classes != (SET,):
            return "a task is one instruction, with code for the apps"
        instruction, blocks = body.turns[0].instruction, body.turns[0].reference
        if not 0 < len(instruction.strip()) <= MAX_INSTRUCTION_CHARS:
            return f"the instruction has {len(instruction)} characters"
        if not 0 < len(blocks) <= self._blocks:
            return f"{len(blocks)} blocks; the policy may write {self._blocks}"
        try:
            world = msgspec.json.decode(body.world, type=WorldOf).task
            msgspec.json.decode(body.extra, type=Extra)
        except msgspec.MsgspecError as error:
            return f"its world cannot be opened: {error}"
        if not self._is_training(world):
            return "its world is none of a training task"
        return next((fault for block in blocks if (fault := _unreadable(block))), "")

    def _unknown(self, blocks: Sequence[str]) -> str:
        named = [name for block in blocks for name in apis_in(block)]
        if unknown := sorted(set(named) - set(self._documents.names)):
            return f"there is no API {unknown[0]}"
        written = sum(len(_APIS.findall(ast.unparse(ast.parse(block)))) for block in blocks)
        return "" if written <= len(named) else "the code names an API in another way than apis.x.y"

    async def _omitted(self, body: ToolTask, trials: Trials) -> str:
        """Return a literal that nobody says and that makes a difference; empty if there is none."""
        (turn,) = body.turns
        extra = msgspec.json.decode(body.extra, type=Extra)
        said = "\n".join((turn.instruction, *extra.supervisor.values()))
        named = {name for block in turn.reference for name in apis_in(block)}
        documented = self._documents.words(named)
        for literal in told_literals(turn.reference):
            if is_known(literal.value, said, documented):
                continue
            if literal.formatted or not await _is_free(literal, turn.reference, trials):
                return f"the code has {literal.value!r}, which nobody says"
        return ""


async def _check_mutants(blocks: Sequence[str], trials: Trials) -> None:
    code, others = _mutants(blocks)
    if wrong := await passing(others, trials):
        raise RefusedError("passes_mutants", f"{wrong[0].kind} passes: {wrong[0].spoilt}")
    same = await passing(code, trials)
    if 2 * len(same) > len(code):
        found = f"{len(same)} of {len(code)} spoilt references pass"
        raise RefusedError("passes_mutants", f"{found}, one with another {same[0].spoilt}")


def _mutants(blocks: Sequence[str]) -> tuple[Sequence[Mutant], Sequence[Mutant]]:
    """Return mutants of statements and literals, and one of each of `SIDE_EFFECTS`."""
    rng = Random("\n".join(blocks))  # noqa: S311, no secret
    every = mutants_of(blocks, rng, sys.maxsize)
    code = [each for each in every if each.kind not in SIDE_EFFECTS]
    others = {each.kind: each for each in every if each.kind in SIDE_EFFECTS}
    return code[:MUTANTS], tuple(others.values())


async def _is_free(literal: Literal, blocks: Sequence[str], trials: Trials) -> bool:
    """Return whether another value in every place of a literal makes no difference."""
    written = repr(literal.value)
    changed = [
        each
        for each in literals(list(map(ast.parse, blocks)))
        if each.kind == "change_literal" and each.spoilt == written
    ]
    return len(await passing(changed, trials)) == len(changed)


async def _answered(body: ToolTask, trials: Trials) -> str:
    """Return the reference's answer if the instruction says it; empty if it does not."""
    (turn,) = body.turns
    if not answers(turn.reference):
        return ""
    shown = await trials.play((printing(turn.reference),))
    lines = shown.turns[0].observed[-1].result.strip().splitlines()
    return told_answer(turn.instruction, lines[-1].strip()) if lines else ""


def _unreadable(block: str) -> str:
    if len(block) > MAX_CHARS:
        return f"a block has {len(block)} characters"
    try:
        apis_in(block)
    except ValueError:
        return f"{block[:80]!r} is {UNREADABLE}"
    if _is_deep(ast.parse(block)):
        return f"{block[:80]!r} is nested more than {MOST_DEPTH} deep"
    return ""


def _is_deep(tree: ast.AST) -> bool:
    """Return whether code is nested so deep that functions that call themselves cannot read it."""
    level = [tree]
    for _ in range(MOST_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return bool(level)


def _hidden(blocks: Sequence[str]) -> str:
    for block in blocks:
        if OTHER_TASK in apis_in(block):
            return f"{OTHER_TASK} shows another task"
        for node in ast.walk(ast.parse(block)):
            match node:
                case ast.Name(id=name) if name in HIDDEN:
                    return f"the code uses {name}"
                case ast.Attribute(attr=name) if name.startswith("__"):
                    return f"the code uses {name}"
                case _:
                    pass
    return ""


def _replay_fault(blocks: Sequence[str], played: Tried) -> str:
    (turn,) = played.turns
    for number, observed in enumerate(turn.observed, 1):
        if observed.failed:
            return f"block {number} of {len(blocks)}: {observed.result.strip()[-160:]}"
    return NOT_COMPLETED if turn.verdict == Failed(reason=NOT_COMPLETED) else ""


def _difference(first: Tried, second: Tried) -> str:
    """Return how two executions differ; the verdict on the first compares it with a third."""
    if isinstance(verdict := first.turns[0].verdict, Failed):
        return f"another execution ends elsewhere: {verdict.reason}"
    if first.turns[0].observed != second.turns[0].observed:
        return "the second execution prints something else"
    return "" if first == second else "the second execution ends in another state"


def _idle(tried: Tried) -> str:
    return "nothing but completing the task leads to the same end" if passes(tried) else ""
