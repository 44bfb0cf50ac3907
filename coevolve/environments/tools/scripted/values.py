"""Other values for the slots of a template: from the task's own world, or from other tasks."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random

from coevolve.environments.tools.scripted.templates import (
    Example,
    Place,
    Scalar,
    world_values,
)
from coevolve.environments.tools.task import ToolTask

MOST_EXAMPLES_ON = 0.8
"""Share of a parameter's values that a path of the worlds has; from it on, the path gives them."""

LEAST_NUMBERS = 3
"""Different whole numbers of a parameter, from which on it takes those between them, too."""

World = Mapping[str, Sequence[Scalar]]
"""Path -> the different values that the world has there."""


def world_of(body: ToolTask) -> World:
    """Return the values of a task's world by path."""
    found: defaultdict[str, dict[Scalar, None]] = defaultdict(dict)
    for path, value in world_values(body):
        found[path][value] = None
    return {path: tuple(values) for path, values in found.items()}


class Values:
    """The values that parameters take in some tasks."""

    def __init__(self, worlds: Sequence[World], tasks: Sequence[Sequence[Example]]) -> None:
        """Learn from the turns of ``tasks``, each in the world at the same place."""
        taken: defaultdict[Place, list[tuple[Scalar, World]]] = defaultdict(list)
        for world, examples in zip(worlds, tasks, strict=True):
            for example in examples:
                for slot, value in zip(example.template.slots, example.values, strict=True):
                    taken[slot.place].append((value, world))
        self._pools = {
            place: tuple(dict.fromkeys(value for value, _ in values))
            for place, values in taken.items()
        }
        self._paths = {place: _path(place, values) for place, values in taken.items()}

    def others(
        self, examples: Sequence[Example], world: World, rng: Random
    ) -> list[tuple[Scalar, ...]]:
        """Return other values for the turns of a task; equal ones of a kind stay equal."""
        drawn: dict[tuple[str | Place, Scalar], Scalar] = {}
        for example in examples:
            for slot, value in zip(example.template.slots, example.values, strict=True):
                key = (self._paths[slot.place] or slot.place, value)
                if key not in drawn:
                    used = {other for (kind, _), other in drawn.items() if kind == key[0]}
                    drawn[key] = self._other(slot.place, value, world, used, rng)
        return [
            tuple(
                drawn[self._paths[slot.place] or slot.place, value]
                for slot, value in zip(example.template.slots, example.values, strict=True)
            )
            for example in examples
        ]

    def _other(
        self, place: Place, value: Scalar, world: World, used: set[Scalar], rng: Random
    ) -> Scalar:
        known = world.get(self._paths[place])
        pool = known or self._pools[place]
        numbers = [each for each in pool if not isinstance(each, str) and each == int(each)]
        if not known and len(numbers) == len(pool) >= LEAST_NUMBERS:
            drawn = rng.randint(int(min(numbers)), int(max(numbers)))
            return type(value)(drawn)
        free = [each for each in pool if each not in used and type(each) is type(value)]
        return rng.choice(free or [value])


def _path(place: Place, values: Sequence[tuple[Scalar, World]]) -> str:
    """Return the path that fits best of those that have nearly all values; empty for none.

    A path of numbers has to share a word with the parameter: small numbers are everywhere. A
    parameter that always had the same value keeps it.
    """
    hits: defaultdict[str, int] = defaultdict(int)
    size: defaultdict[str, int] = defaultdict(int)
    for value, world in values:
        for path, there in world.items():
            hits[path] += value in there
            size[path] += len(there)
    named = _words(place[1])
    of_numbers = not isinstance(values[0][0], str)
    likely = [
        path
        for path in hits
        if hits[path] >= MOST_EXAMPLES_ON * len(values) and (named & _words(path) or not of_numbers)
    ]
    if len(values) > 1 and len({value for value, _ in values}) == 1:
        return ""
    return min(
        likely,
        key=lambda path: (-hits[path], -len(named & _words(path)), size[path], path),
        default="",
    )


def _words(name: str) -> set[str]:
    """Return the words of a name in the singular."""
    return {word.removesuffix("s") for word in re.findall("[a-z]+", name.lower())}
