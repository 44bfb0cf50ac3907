"""The calls that were tried on one task, and what they say about it.

*A value that decides.* Another value of an argument counts unless its call was refused: with an
error, or with another answer than the reference's and no change where the reference makes one. An
argument is undecided if all values that count pass.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from coevolve.environments.tools.adversary.arguments import MOST_VALUES, Parameter
from coevolve.environments.tools.adversary.calls import Changed, Place
from coevolve.environments.tools.adversary.probes import Attempt, Probe
from coevolve.environments.tools.commands import Tried
from coevolve.environments.tools.gates.trials import passes

ROUNDS = (0, 1, 4, MOST_VALUES)
"""Bounds of the values of an argument that are tried together, unless one before them fails."""

Made = tuple[Attempt, Tried]


class Undecided(NamedTuple):
    """An argument of which every value that counts passes, or none counts."""

    changed: Changed
    passing: Sequence[Attempt]

    @property
    def parameter(self) -> Parameter:
        """The tool and its parameter."""
        return self.changed.variants.parameter

    @property
    def probe(self) -> Probe:
        """The attempts that pass."""
        tool, name = self.parameter
        return Probe(f"{tool} with another {name!r}", self.passing, tool=tool)


class Played(NamedTuple):
    """The calls of a task that were tried, with their results."""

    reference: Sequence[Made]
    """The reference; empty if it could not be played."""

    other: Sequence[Made]
    fields: Sequence[Made]
    same: Sequence[Made]
    parts: Mapping[Place, Made]
    """The reference without one call, by this call's place."""

    undecided: Sequence[Undecided] = ()
    renamed: Sequence[Made] = ()

    @property
    def every(self) -> Iterator[Made]:
        """All of them but parts, and those with one other argument."""
        yield from (*self.other, *self.fields, *self.same)

    @property
    def changes(self) -> bool:
        """Whether the reference changes the state, as the grade sees it."""
        return any(changed(tried) for _, tried in self.reference)

    @property
    def passes(self) -> bool:
        """Whether the reference passes."""
        return any(passes(tried) for _, tried in self.reference)

    @property
    def idle_parts(self) -> Iterator[tuple[str, Made]]:
        """Each call of the reference without which the rest passes, with the rest."""
        for place, rest in self.parts.items():
            if passes(rest[1]):
                for reference, _ in self.reference:
                    yield reference.turns[place[0]][place[1]], rest

    def judged(self, before: Undecided, tried: Mapping[Attempt, Tried]) -> Undecided | None:
        """Return the argument if no further value that counts fails; None if one does."""
        argument = before.changed
        found = [(each, tried[each]) for each in argument.attempts if each in tried]
        failing = (how for _, how in found if not passes(how))
        if not all(self._refused(argument.place, how) for how in failing):
            return None
        return Undecided(argument, (*before.passing, *made(found)))

    def matters(self, place: Place) -> bool:
        """Return whether the reference passes, and does not without the call at this place."""
        left = self.parts.get(place)
        return self.passes and not (left is not None and passes(left[1]))

    def _refused(self, place: Place, tried: Tried) -> bool:
        turn, call = place
        answer = tried.turns[turn].observed[call]
        for _, reference in self.reference:
            left = self.parts.get(place)
            without = left[1].turns[turn].state if left else reference.initial
            state = tried.turns[turn].state
            is_other = answer.result != reference.turns[turn].observed[call].result
            if is_other and state == without != reference.turns[turn].state:
                return True
        return answer.failed


def changed(tried: Tried) -> bool:
    """Return whether an attempt changed the state after any turn."""
    return any(turn.state != tried.initial for turn in tried.turns)


def made(tried: Sequence[Made]) -> list[Attempt]:
    """Return the attempts that passed."""
    return [attempt for attempt, each in tried if passes(each)]


def all_passed(tried: Sequence[Tried | None]) -> bool:
    """Return whether all attempts were made and passed."""
    return all(each is not None and passes(each) for each in tried)


def carried_out(tried: Sequence[Made]) -> list[Tried]:
    """Return the attempts that passed, or of which a call was carried out."""
    return [
        each
        for _, each in tried
        if passes(each) or any(not call.failed for turn in each.turns for call in turn.observed)
    ]


def all_pass(tried: Sequence[Made], least: int = 1) -> bool:
    """Return whether all attempts with a call that was carried out passed, at least some."""
    counted = carried_out(tried)
    return len(counted) >= least and all(map(passes, counted))
