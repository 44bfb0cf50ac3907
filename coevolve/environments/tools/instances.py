"""Makes further instances of a task: the same work under other names.

A policy that has memorized a task's calls fails on its instances; one that has learned the skill
does not. The *instance gap*, success on the tasks as they were trained minus success on their
instances, measures memorization (the idea of executable specifications: VeRA, arXiv 2602.13217).

An instance renames what both an instruction and a call name: a file, a folder, a stock, a word. New
names come from other tasks (`coevolve.environments.tools.vocabulary`), and replace the old ones in
world, instructions and calls alike. Execution decides: an instance is used only if its reference
passes and fails exactly where the original's does, and if the original's calls fail on it. A name
that means something to the tools (a currency, a travel class) keeps its place that way.
"""

import ast
import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import msgspec
import numpy as np

from coevolve.environments.instances import instances_of
from coevolve.environments.tools.commands import Tried, with_results
from coevolve.environments.tools.gates.trials import Trials, passes
from coevolve.environments.tools.interfaces import Simulator
from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.environments.tools.vocabulary import Named, Vocabulary, named, pattern_of
from protocols.errors import SimulatorError
from protocols.tasks import Instantiated, Task, attempted, body_of

ATTEMPTS = 4
"""Draws of names for one instance."""

_INSTANCE_STREAM = 9


class Instances:
    """Makes instances with given names."""

    def __init__(
        self,
        simulator: Simulator,
        names: Vocabulary,
        refuses: Callable[[Task], bool] = lambda task: False,
        *,
        of: Named = named,
        put: Callable[[ToolTask, Mapping[str, str]], ToolTask] | None = None,
    ) -> None:
        """Take new names from ``names``; an instance that ``refuses`` is made with other ones.

        ``of`` finds the names of a task and ``put`` replaces them, by default those in calls.
        """
        self._simulator = simulator
        self._names = names
        self._refuses = refuses
        self._of = of
        self._put = put or renamed

    async def of(self, tasks: Sequence[Task], seed: int) -> dict[str, Task]:
        """Return an instance of each task by the task's id, without tasks that have none.

        Equal arguments give equal instances. Raises SimulatorError if the machine failed.
        """
        return await instances_of(tasks, lambda task: self._instance(task, seed))

    async def _instance(self, task: Task, seed: int) -> Task | None:
        body = tool_task(task)
        trials = Trials(self._simulator, f"instance/{task.task_id}", body)
        original = await trials.play(body.references)
        if not passes(original):
            return None
        for attempt in range(ATTEMPTS):
            wanted = self._new_names(task, (seed, attempt))
            other = await self._with_names(trials, body, original, wanted)
            if other is None:
                return None
            made = Task(
                task_id=attempted(task.task_id, seed),
                split=task.split,
                origin=Instantiated(root=task.task_id, instance=seed),
                skills=task.skills,
                body=body_of(other),
            )
            if not self._refuses(made):
                return made
        return None

    async def _with_names(
        self, trials: Trials, body: ToolTask, original: Tried, wanted: Mapping[str, str]
    ) -> ToolTask | None:
        """Return the task with those of the new names that hold, and its answers; or None."""
        if other := await self._holding(trials, body, original, wanted):
            return other
        # One of the names means something to the tools.
        alone = await asyncio.gather(
            *(self._holding(trials, body, original, {old: new}) for old, new in wanted.items())
        )
        names = {old: wanted[old] for old, other in zip(wanted, alone, strict=True) if other}
        return await self._holding(trials, body, original, names)

    async def _holding(
        self, trials: Trials, body: ToolTask, original: Tried, names: Mapping[str, str]
    ) -> ToolTask | None:
        """Return the renamed task with its answers; None unless it is the same work, not calls."""
        if not names:
            return None
        other = self._put(body, names)
        try:
            played = await trials.play(other.references, other)
            memorized = await trials.play(body.references, other)
        except SimulatorError:  # the tools refuse the renamed world
            return None
        is_same = passes(played) and _failures(played) == _failures(original)
        return with_results(other, played) if is_same and not passes(memorized) else None

    def _new_names(self, task: Task, seed: tuple[int, int]) -> dict[str, str]:
        """Return a new name for each name of the task that has an alternative."""
        body = tool_task(task)
        rng = np.random.default_rng((*seed, _INSTANCE_STREAM, *task.task_id.encode()))
        text = _everything(body)
        new: dict[str, str] = {}
        for name, parameter in self._of(body).items():
            if another := self._names.another(name, parameter, text, rng):
                new[name] = another
                text += f"\n{another}"
        return new


def renamed(body: ToolTask, names: Mapping[str, str]) -> ToolTask:
    """Return the task with other names in its world, instructions, calls and further fields."""
    pattern = pattern_of(names)

    def put(text: str) -> str:
        return pattern.sub(lambda found: names[found[0]], text)

    def put_in(document: str) -> str:
        return msgspec.json.encode(_replaced(msgspec.json.decode(document), put)).decode()

    return msgspec.structs.replace(
        body,
        world=put_in(body.world),
        extra=put_in(body.extra) if body.extra else "",
        turns=tuple(
            msgspec.structs.replace(
                turn,
                instruction=put(turn.instruction),
                reference=tuple(_replaced_in_call(call, put) for call in turn.reference),
                results=(),
            )
            for turn in body.turns
        ),
    )


def _failures(tried: Tried) -> list[bool]:
    return [observed.failed for turn in tried.turns for observed in turn.observed]


def _everything(body: ToolTask) -> str:
    """Return all texts of a task."""
    turns = [text for turn in body.turns for text in (turn.instruction, *turn.reference)]
    return "\n".join((body.world, body.extra, *turns))


def _replaced(value: object, put: Callable[[str], str]) -> object:
    """Return JSON with other texts and keys."""
    match value:
        case str():
            return put(value)
        case list():
            return [_replaced(each, put) for each in cast("list[object]", value)]
        case dict():
            entries = cast("dict[str, object]", value).items()
            return {put(key): _replaced(each, put) for key, each in entries}
        case _:
            return value


def _replaced_in_call(call: str, put: Callable[[str], str]) -> str:
    """Return a call with other string literals, and otherwise as it was written."""
    written = call.encode()
    literals = [
        (node.col_offset, node.end_col_offset, node.value)
        for node in ast.walk(ast.parse(call, mode="eval"))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    for start, end, value in sorted(literals, reverse=True):
        if (other := put(value)) != value:
            written = written[:start] + repr(other).encode() + written[end:]
    return written.decode()
