"""Cuts a walk into turns: the last call of each errand with the calls that it needs.

A call is needed where an argument was taken from its answer, or where experiments show it: without
it a later call answers otherwise or fails, or takes effect elsewhere. The latter is so where the
state at the end differs both without the call and with the call made afterwards; a call that merely
leaves a trace of its own makes no difference when it comes later. What is not needed was done for
its own sake, and becomes a turn before.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass

from coevolve.environments.tools.commands import Observed, Tried
from coevolve.environments.tools.filesystem.steps import LOOKING, Step
from coevolve.environments.tools.interfaces import Simulator
from coevolve.environments.tools.synthesis.brief import Start
from coevolve.environments.tools.task import ToolTask, ToolTurn


@dataclass(frozen=True)
class Slice:
    """The calls of one turn and their answers."""

    calls: tuple[str, ...]
    results: tuple[str, ...]

    def parts(self) -> "tuple[Slice, ...]":
        """Return a slice for every call."""
        return tuple(
            Slice(calls=(call,), results=(result,))
            for call, result in zip(self.calls, self.results, strict=True)
        )


def world_of(start: Start, turns: int = 1) -> ToolTask:
    """Return a task in the start's world that asks for nothing: what is explored in."""
    return ToolTask(
        classes=start.classes,
        world=start.world,
        turns=(ToolTurn(instruction="", reference=()),) * turns,
        long_context=start.long_context,
        checks_directory=start.checks_directory,
    )


async def sliced(
    simulator: Simulator, name: str, start: Start, steps: Sequence[Step]
) -> tuple[Slice, ...]:
    """Return the turns of a walk, in order. Raises SimulatorError."""
    before: list[str] = []
    cuts: list[Coroutine[None, None, list[Slice]]] = []
    for number, errand in enumerate(_errands(steps)):
        cuts.append(_cut(simulator, f"{name}-{number}", start, tuple(before), errand))
        before += (step.text for _, step in errand)
    return tuple(each for slices in await asyncio.gather(*cuts) for each in slices)


_Errand = list[tuple[int, Step]]
"""Steps that succeeded, with their positions in the walk."""


def _errands(steps: Sequence[Step]) -> list[_Errand]:
    """Return the walk's errands, without what was only looked at."""
    errands: dict[int, _Errand] = {}
    for position, step in enumerate(steps):
        if step.errand != LOOKING and not step.observed.failed:
            errands.setdefault(step.errand, []).append((position, step))
    return list(errands.values())


async def _cut(
    simulator: Simulator, name: str, start: Start, before: tuple[str, ...], errand: _Errand
) -> list[Slice]:
    taken = {each.answered_by for _, step in errand for each in step.arguments}
    open_questions = [
        number for number, (position, _) in enumerate(errand[:-1]) if position not in taken
    ]
    calls = [step.text for _, step in errand]
    needed = set(range(len(errand)))
    if open_questions:
        trials = [
            simulator.trial(f"{name}-{number}", world_of(start, len(turns)), turns)
            for number in (None, *open_questions)
            for turns in [_experiment(before, calls, number)]
        ]
        all_made, *without = await asyncio.gather(*trials)
        for number, tried in zip(open_questions, without, strict=True):
            if not _makes_a_difference(all_made, tried, number):
                needed.remove(number)
    alone = [[step] for number, step in enumerate(errand) if number not in needed]
    together = [step for number, step in enumerate(errand) if number in needed]
    return [_slice(steps) for steps in (*alone, together)]


def _slice(errand: _Errand) -> Slice:
    return Slice(
        calls=tuple(step.text for _, step in errand),
        results=tuple(step.observed.result for _, step in errand),
    )


def _experiment(
    before: tuple[str, ...], calls: Sequence[str], late: int | None
) -> tuple[tuple[str, ...], ...]:
    """Return the turns of a trial: what came before, the errand, and the one call made late."""
    if late is None:
        return before, tuple(calls)
    return before, (*calls[:late], *calls[late + 1 :]), (calls[late],)


def _makes_a_difference(all_made: Tried, tried: Tried, late: int) -> bool:
    expected = _without(all_made.turns[1].observed, late)[late:]
    if tried.turns[1].observed[late:] != expected:
        return True
    end = all_made.turns[1].state
    return tried.turns[1].state != end and tried.turns[2].state != end


def _without(observed: tuple[Observed, ...], number: int) -> tuple[Observed, ...]:
    return (*observed[:number], *observed[number + 1 :])
