"""Gates of the verifier: it has to refuse every mutant of the reference that differs from it.

The verifier is the task's own comparison (`tools.session`). If it accepts a mutant, the gates try
the stricter comparison (`ToolTask.strict`), and the task keeps the one that suffices.

An argument is *free* if every tried value of it leads to the same end and the same answers, for
example the password of a simulator that accepts any. Nobody can see its value, so the verifier need
not check it and the instruction need not say it. The same end is what the comparison calls so; it
leaves out what tools keep for themselves, such as a cache.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from coevolve.environments.tools.commands import Tried
from coevolve.environments.tools.gates import mutants
from coevolve.environments.tools.gates.mutants import Place, Slot, Turns
from coevolve.environments.tools.gates.reading import Read
from coevolve.environments.tools.gates.refusal import RefusedError, refuse
from coevolve.environments.tools.gates.trials import Trials, passes
from coevolve.environments.tools.task import ToolTask


class Verified(NamedTuple):
    """A task whose verifier refuses all mutants."""

    body: ToolTask
    """The task, strict if it has to be."""

    free: frozenset[Place]
    """The free arguments."""


async def verified(
    body: ToolTask,
    read: Read,
    played: Tried,
    names: Sequence[str],
    trials: Trials,
) -> Verified:
    """Return the task with the comparison that suffices.

    ``names`` are names of the world for wrong values. Raises RefusedError if neither comparison
    suffices.
    """
    mutated = _Mutated(body, read, played, trials)
    every = await mutated.values(names)
    free = frozenset(each.slot.place for each in every if all(map(mutated.is_same, each.tried)))
    try:
        await mutated.refuse_hasty()
        await mutated.refuse_accepted(every, free)
    except RefusedError:
        strict = _Mutated(msgspec.structs.replace(body, strict=True), read, played, trials)
        await strict.refuse_accepted(await strict.values(names), free)
        return Verified(strict.body, free)
    return Verified(body, free)


class _Values(NamedTuple):
    """The trials of one argument's wrong values."""

    slot: Slot
    wrong: tuple[object, ...]
    tried: list[Tried]


class _Mutated:
    """The mutants of one task."""

    def __init__(
        self,
        body: ToolTask,
        read: Read,
        played: Tried,
        trials: Trials,
    ) -> None:
        self.body = body
        self._read = read
        self._turns = body.references
        self._played = played
        self._trials = trials

    def is_same(self, tried: Tried) -> bool:
        """Return whether a mutant reached the reference's end with the reference's answers."""
        return passes(tried) and all(
            sorted(each.result for each in one.observed)
            == sorted(each.result for each in other.observed)
            for one, other in zip(tried.turns, self._played.turns, strict=True)
        )

    async def values(self, names: Sequence[str]) -> list[_Values]:
        """Return the trials of every argument's wrong values."""
        every = mutants.slots(self._read)
        return list(await asyncio.gather(*(self._values_of(slot, every, names) for slot in every)))

    async def _values_of(self, slot: Slot, every: Sequence[Slot], names: Sequence[str]) -> _Values:
        wrong = mutants.wrong_values(slot, every, names)
        variants = (mutants.with_value(self._turns, self._read, slot, value) for value in wrong)
        return _Values(slot, wrong, list(await asyncio.gather(*map(self._play, variants))))

    async def _play(self, turns: Turns) -> Tried:
        return await self._trials.play(turns, self.body)

    async def refuse_hasty(self) -> None:
        """Raise RefusedError if the verifier accepts calls in a turn that should have none.

        The strict comparison accepts only those that change nothing, which do no harm.
        """
        for mutant, tried in await self._play_all(mutants.hasty(self._turns)):
            refuse("passes_acting_early", self._accepted(mutant, tried))

    async def refuse_accepted(self, values: Sequence[_Values], free: frozenset[Place]) -> None:
        """Raise RefusedError if the verifier accepts a mutant."""
        for mutant, tried in await self._play_all(mutants.idle(self._turns)):
            refuse("passes_without_acting", self._accepted(mutant, tried))
        for mutant, tried in await self._play_all(mutants.truncated(self._turns)):
            refuse("passes_truncated", self._accepted(mutant, tried))
        for mutant, tried in await self._play_all(mutants.reordered(self._turns)):
            if not self.is_same(tried):
                refuse("passes_reordered", self._accepted(mutant, tried))
        for each in values:
            if each.slot.place not in free and all(map(passes, each.tried)):
                raise RefusedError("passes_wrong_argument", _unguarded(each.slot, each.wrong))

    async def _play_all(self, variants: mutants.Mutants) -> list[tuple[Turns, Tried]]:
        listed = list(variants)
        return list(zip(listed, await asyncio.gather(*map(self._play, listed)), strict=True))

    def _accepted(self, mutant: Turns, tried: Tried) -> str:
        """Return a description of the mutant if the verifier accepts it; empty if it does not."""
        if not passes(tried):
            return ""
        changed = self._changed(mutant)
        return f"turn {changed + 1} passes with {'; '.join(mutant[changed])}"

    def _changed(self, mutant: Turns) -> int:
        return next(number for number, calls in enumerate(mutant) if calls != self._turns[number])


def _unguarded(slot: Slot, values: Sequence[object]) -> str:
    found = f"turn {slot.turn + 1}: {slot.tool}'s {slot.argument.name}={slot.argument.value!r}"
    return f"{found} may as well be {', '.join(map(repr, values))}"
