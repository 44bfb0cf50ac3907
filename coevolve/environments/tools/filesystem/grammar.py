"""Draws the quickstart's tasks: a random world and one to four requests that depend on each other.

Every task was executed without errors in two new simulators that gave the same answers; the task
records these answers. The digest of a world decides whether it belongs to the held-out or to the
training split, so no training task can equal a held-out one, for any seeds. Training tasks are also
drawn again if they share a request word for word with a held-out one (`gates.similarity`), or have
a pair of requests that is for held-out tasks alone (`tools.cells`).
"""

import hashlib
import json
from bisect import bisect
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Literal

import numpy as np

from coevolve.environments.tools.cells import held_out_pair
from coevolve.environments.tools.filesystem.simulated import (
    CLASS,
    carry_out,
    look_around,
    open_world,
)
from coevolve.environments.tools.filesystem.skills import SKILLS, Group, Skill, slots_of
from coevolve.environments.tools.filesystem.slots import FILES, FOLDERS, phrase, pick
from coevolve.environments.tools.gates.similarity import Leaks
from coevolve.environments.tools.synthesis.brief import Start
from coevolve.environments.tools.task import ToolTask, ToolTurn, tool_task
from protocols.tasks import Seeded, Split, Task, body_of

Weights = Mapping[str, float]
"""Skill -> its relative frequency."""

MAX_TURNS = 4

HELD_OUT = 240
"""Number of held-out tasks, if a run does not say otherwise."""

_HELD_OUT_SEED = 24_001
_CANARY_SEED = 24_002
_POOL_STREAM = 1
_FRESH_STREAM = 2
_START_STREAM = 4
_HELD_OUT_SHARE = 16
"""One world in this number belongs to the held-out split."""

_ATTEMPTS = 200
_MISSES = 40


def weights(*, well: float, rare: float, scarce: float) -> dict[str, float]:
    """Return the weights that give each skill the weight of its group."""
    by_group: dict[Group, float] = {"well": well, "rare": rare, "scarce": scarce}
    return {name: by_group[skill.group] for name, skill in SKILLS.items()}


UNIFORM = weights(well=1, rare=1, scarce=1)
SEED_IMBALANCE = weights(well=8, rare=1, scarce=0.25)


def draw_task(
    rng: np.random.Generator,
    skills: Weights,
    turns: int,
    *,
    source: str = "uniform",
    split: Split = "train",
) -> Task:
    """Return a new task with ``turns`` turns.

    Some skills need a place that the conversation has not reached ("go back up"). If turns remain,
    the skill that reaches the place comes before such a skill. Raises ValueError if the weights
    allow no task of this length.
    """
    if not 1 <= turns <= MAX_TURNS:
        raise ValueError(f"a task of the grammar needs 1 to {MAX_TURNS} turns, got {turns}")
    for _ in range(_ATTEMPTS):
        world = _draw_world(rng, split)
        played = _play(rng, skills, turns, world)
        if played is not None and _answers_alike(world, played[1]):
            return _task(world, *played, source=source, split=split)
    wanted = ", ".join(name for name, weight in skills.items() if weight > 0)
    raise ValueError(f"no task of {turns} turn(s) can be drawn from these skills alone: {wanted}")


def uniform_task(seed: int, number: int, held_out: int = HELD_OUT) -> Task:
    """Return the run's new task ``number``: 1 to 3 turns, all skills with equal weight.

    It overlaps with none of the first ``held_out`` held-out tasks, and has no pair of theirs alone.
    """
    rng = np.random.default_rng((seed, _FRESH_STREAM, number))
    return _apart(rng, UNIFORM, "uniform", held_out)


def static_pool(seed: int, size: int, held_out: int = HELD_OUT) -> tuple[Task, ...]:
    """Return ``size`` tasks of 1 to 3 turns, imbalanced like the warm start.

    None overlaps with one of the first ``held_out`` held-out tasks, or has a pair of theirs alone.
    """
    rng = np.random.default_rng((seed, _POOL_STREAM))
    return tuple(_apart(rng, SEED_IMBALANCE, "static", held_out) for _ in range(size))


def _apart(rng: np.random.Generator, skills: Weights, source: str, held_out: int) -> Task:
    leaks = _leaks(held_out)
    while True:
        task = draw_task(rng, skills, int(rng.integers(1, 4)), source=source)
        if not (held_out_pair(tool_task(task)) or leaks(task)):
            return task


@lru_cache(maxsize=4)
def _leaks(held_out: int) -> Leaks:
    return Leaks(held_out_tasks(held_out))


def exploration_start(seed: int, number: int) -> Start:
    """Return the run's exploration world ``number``: of the training split, but of no task."""
    rng = np.random.default_rng((seed, _START_STREAM, number))
    return Start(
        origin=f"grammar:world:{number}",
        classes=(CLASS,),
        world=_draw_world(rng, "train"),
        checks_directory=True,
    )


@lru_cache(maxsize=4)
def held_out_tasks(count: int = HELD_OUT) -> tuple[Task, ...]:
    """Return the held-out tasks, which are the same in every run.

    The first half has one turn and uses the skills in rotation, except those that cannot start a
    conversation and those whose requests name nothing: training has the few wordings of the latter.
    The others have 2, 3, 4 turns in rotation, all skills with equal weight.
    """
    opening = [skill.name for skill in SKILLS.values() if skill.names and not skill.after]
    single = (count + 1) // 2
    tasks: list[Task] = []
    for index in range(count):
        rng = np.random.default_rng((_HELD_OUT_SEED, index))
        if index < single:
            skills, turns = {opening[index % len(opening)]: 1.0}, 1
        else:
            skills, turns = UNIFORM, 2 + (index - single) % 3
        tasks.append(draw_task(rng, skills, turns, source="held-out", split="held_out"))
    return tuple(tasks)


def canary_tasks(count: int) -> tuple[Task, ...]:
    """Return the guard's tasks, the same in every run: 1 to 3 turns, all skills with equal weight.

    Their worlds belong to the training split, but no training task has their seeds.
    """
    return tuple(
        draw_task(
            np.random.default_rng((_CANARY_SEED, index)), UNIFORM, 1 + index % 3, source="canary"
        )
        for index in range(count)
    )


def group_of(task: Task) -> Literal[Group, "multi"]:
    """Return the group of a single-turn task's skill; ``multi`` for longer tasks."""
    return SKILLS[task.skills[0]].group if len(task.skills) == 1 else "multi"


def paraphrases(skill: str, calls: Sequence[str]) -> frozenset[str]:
    """Return every instruction by which ``skill`` asks for these calls; empty if there is none."""
    slots = slots_of(SKILLS[skill], calls)
    if slots is None:
        return frozenset()
    return frozenset(template.format(**slots) for template in SKILLS[skill].paraphrases)


def _draw_world(rng: np.random.Generator, split: Split) -> str:
    while True:
        world = json.dumps({CLASS: {"root": {"workspace": _folder(_draw_contents(rng))}}})
        held_out = hashlib.sha256(world.encode()).digest()[0] % _HELD_OUT_SHARE == 0
        if held_out == (split == "held_out"):
            return world


def _draw_contents(rng: np.random.Generator) -> dict[str, Any]:
    contents: dict[str, Any] = {}
    for name in rng.permutation(FOLDERS)[: int(rng.integers(2, 4))]:
        contents[str(name)] = _folder(_draw_files(rng, pick(rng, (0, 1, 1, 2))))
    return contents | _draw_files(rng, int(rng.integers(2, 5)))


def _draw_files(rng: np.random.Generator, count: int) -> dict[str, Any]:
    names = [str(name) for name in rng.permutation(FILES)[:count]]
    return {name: {"type": "file", "content": _draw_text(rng)} for name in names}


def _draw_text(rng: np.random.Generator) -> str:
    return "\n".join(phrase(rng, most=2) for _ in range(int(rng.integers(1, 4))))


def _folder(contents: dict[str, Any]) -> dict[str, Any]:
    return {"type": "directory", "contents": contents}


def _play(
    rng: np.random.Generator, skills: Weights, turns: int, world: str
) -> tuple[list[str], list[ToolTurn]] | None:
    """Return the skills and the turns of one conversation; None if the draw reaches a dead end."""
    opened = open_world(world)
    names, cumulative = list(skills), list(accumulate(skills.values()))
    played: list[str] = []
    turns_so_far: list[ToolTurn] = []
    owed: Skill | None = None
    for _ in range(_MISSES):
        skill = owed or SKILLS[names[bisect(cumulative, rng.random() * cumulative[-1])]]
        owed = None
        place = look_around(opened)
        slots = skill.fill(place, rng)
        if slots is None and skill.after and turns - len(turns_so_far) > 1:
            owed, skill = skill, SKILLS[skill.after]
            slots = skill.fill(place, rng)
        if slots is None:
            owed = None
            continue
        calls = tuple(template.format(**slots) for template in skill.calls)
        results = carry_out(opened, calls)
        if results is None:
            return None
        instruction = pick(rng, skill.paraphrases).format(**slots)
        played.append(skill.name)
        turns_so_far.append(ToolTurn(instruction=instruction, reference=calls, results=results))
        if len(turns_so_far) == turns:
            return played, turns_so_far
    return None


def _answers_alike(world: str, turns: Sequence[ToolTurn]) -> bool:
    opened = open_world(world)
    return all(carry_out(opened, turn.reference) == turn.results for turn in turns)


def _task(
    world: str, skills: Sequence[str], turns: Sequence[ToolTurn], *, source: str, split: Split
) -> Task:
    text = json.dumps([world, [turn.instruction for turn in turns]])
    return Task(
        task_id=f"grammar-{hashlib.sha256(text.encode()).hexdigest()[:20]}",
        split=split,
        origin=Seeded(source=f"grammar:{source}"),
        skills=tuple(skills),
        body=body_of(
            ToolTask(classes=(CLASS,), world=world, turns=tuple(turns), checks_directory=True)
        ),
    )
