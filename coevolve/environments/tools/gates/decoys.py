"""Decoys of a reference: similar calls that the verifier refuses, those that work first.

A decoy takes another tool with the same parameters, another value, leaves out a call, makes the
calls in another order, or makes them a turn too early. No decoy has another value where only an
answer shows the right one (a token, a symbol): the reader sees no answers.
"""

import asyncio
import itertools
from collections.abc import Iterator, Mapping, Sequence
from random import Random

from coevolve.base.in_turn import in_turn
from coevolve.environments.tools.commands import Tried
from coevolve.environments.tools.gates import mutants
from coevolve.environments.tools.gates.forms import plain, says, shows
from coevolve.environments.tools.gates.knowledge import is_small
from coevolve.environments.tools.gates.mutants import Slot, Turns
from coevolve.environments.tools.gates.reading import Read, ReadCall, tools_of, written
from coevolve.environments.tools.gates.trials import Trials, passes
from coevolve.environments.tools.gates.worlds import names
from coevolve.environments.tools.task import ToolTask
from coevolve.environments.tools.toolset import ToolDocument

MOST = 4
"""Maximum decoys of one reference."""

TRIED = 12
"""Maximum trials for them."""


async def decoys(body: ToolTask, read: Read, trials: Trials, rng: Random) -> tuple[Turns, ...]:
    """Return at most `MOST` decoys, of as many kinds as possible. Raises SimulatorError."""
    turns = written(read)
    kinds = (
        _other_tools(read, tools_of(body.classes)),
        _other_values(body, read),
        mutants.truncated(turns),
        mutants.reordered(turns),
        mutants.hasty(turns),
    )
    shuffled = [rng.sample(every, len(every)) for every in map(list, kinds)]
    chosen = list(itertools.islice(dict.fromkeys(in_turn(*shuffled)), TRIED))
    return tuple((await refused(chosen, body, trials))[:MOST])


async def refused(spoilt: Sequence[Turns], body: ToolTask, trials: Trials) -> list[Turns]:
    """Return those that the verifier refuses, first those that work. Raises SimulatorError."""
    tried = await asyncio.gather(*(trials.play(each, body) for each in spoilt))
    others = [each for each in zip(spoilt, tried, strict=True) if not passes(each[1])]
    others.sort(key=lambda each: _failed(each[1]))
    return [turns for turns, _ in others]


def _failed(tried: Tried) -> bool:
    return any(observed.failed for turn in tried.turns for observed in turn.observed)


def _other_values(body: ToolTask, read: Read) -> Iterator[Turns]:
    turns, every, seen = written(read), mutants.slots(read), names(body)
    for slot in every:
        if not _is_answered(slot, body):
            for value in mutants.wrong_values(slot, every, seen):
                yield mutants.with_value(turns, read, slot, value)


def _is_answered(slot: Slot, body: ToolTask) -> bool:
    """Return whether an earlier answer has the argument's value, and no instruction says it."""
    said = "\n".join(turn.instruction for turn in body.turns[: slot.turn + 1])
    before = [result for turn in body.turns[: slot.turn] for result in turn.results]
    before += body.turns[slot.turn].results[: slot.call]
    value = slot.argument.value
    return (
        not isinstance(value, bool)
        and not is_small(value)
        and not says(said, value)
        and shows("\n".join(map(plain, before)), value)
    )


def _other_tools(read: Read, tools: Mapping[str, ToolDocument]) -> Iterator[Turns]:
    turns = written(read)
    for number, calls in enumerate(read):
        for place, call in enumerate(calls):
            for tool in _alike(call, tools):
                yield mutants.with_call(turns, number, place, ReadCall(tool, call.arguments))


def _alike(call: ReadCall, tools: Mapping[str, ToolDocument]) -> Iterator[str]:
    """Yield the other tools that take the call's arguments."""
    given = {argument.name for argument in call.arguments}
    for name, document in tools.items():
        needed = set(document.parameters.get("required", ()))
        if name != call.tool and needed <= given <= set(document.parameters["properties"]):
            yield name
