"""The checks that `coevolve environment check` makes of every environment.

They attempt no task, because that needs a model; a run of one step tests it sooner.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from coevolve.curriculum.group_requests import group_requests
from coevolve.curriculum.held_out import HeldOut
from coevolve.curriculum.task_sampler import Draw
from coevolve.environments.findings import Checks, Finding, counted, measured
from coevolve.environments.interface import Environment
from coevolve.environments.registry import environment_of
from coevolve.history.score import wilson
from protocols.config import RunConfig
from protocols.tasks import Task

DRAWS = 20
"""Number of groups whose tasks are drawn."""

FINE_TASKS = 400
"""Held-out tasks that give a score within 5 points."""


async def common_findings(config: RunConfig, most: int) -> tuple[Finding, ...]:
    """Return the findings of the checks that every environment has to pass.

    ``most`` is the maximum number of tasks of each kind that are read. Raises ConfigError.
    """
    subject = _Twice(config, environment_of(config), environment_of(config), most)
    return await measured(_CHECKS, subject, subject.one.capabilities)


@dataclass(frozen=True)
class _Twice:
    """An environment built twice, as in two processes of a run."""

    config: RunConfig
    one: Environment
    other: Environment
    most: int

    @cached_property
    def opening(self) -> tuple[Task, ...]:
        """The tasks that a run begins with."""
        return _opening(self.one)

    @cached_property
    def scored(self) -> tuple[Task, ...]:
        """The tasks that versions are scored on."""
        return tuple(self.one.scored_tasks())

    @cached_property
    def draws(self) -> tuple[Draw, ...]:
        """The draws of the first groups."""
        return _draws(self.one, self.config)

    @cached_property
    def trained(self) -> dict[str, Task]:
        """The training tasks known after the last of these draws, by id."""
        news = [each for draw in self.draws for each in draw.news if isinstance(each, Task)]
        return {task.task_id: task for task in (*self.opening, *news)}


def _opening(environment: Environment) -> tuple[Task, ...]:
    return tuple(each for each in environment.sampler().opening() if isinstance(each, Task))


def _draws(environment: Environment, config: RunConfig) -> tuple[Draw, ...]:
    """Draw as the curriculum does: fold each draw and its requests into the sampler."""
    sampler = environment.sampler()
    for message in sampler.opening():
        sampler.fold(message)
    draws: list[Draw] = []
    for number in range(DRAWS):
        draw = sampler.task(number)
        requests = group_requests(config, number, draw.task_id, version=0, author=draw.writer)
        for message in (*draw.news, *requests):
            sampler.fold(message)
        draws.append(draw)
    return tuple(draws)


async def _tasks_exist(found: _Twice) -> tuple[bool, str]:
    scored = {task.task_id for task in found.scored}
    watched = {task.task_id for task in found.one.canaries()} - found.trained.keys() - scored
    total = len(found.trained.keys() | scored) + len(watched)
    counts = (
        f"{counted(total, 'task')}: {counted(len(found.trained), 'training task')} at first, "
        f"{counted(len(scored), 'scored task')}"
    )
    if watched:
        counts += f", {len(watched)} canaries, which only the guard uses (learner.guard)"
    return bool(found.trained and found.scored), counts


async def _draws_are_known(found: _Twice) -> tuple[bool, str]:
    unknown = [draw.task_id for draw in found.draws if draw.task_id not in found.trained]
    if unknown:
        return False, f"task {unknown[0]!r} is neither in opening() nor in its draw's news"
    return True, f"{DRAWS} draws"


async def _held_out_is_apart(found: _Twice) -> tuple[bool, str]:
    HeldOut(found.scored).refuse(tuple(found.trained.values()))
    return True, f"{counted(len(found.trained), 'training task')}, none held out"


async def _canaries_are_apart(found: _Twice) -> tuple[bool, str]:
    reported = {task.task_id for task in found.scored if task.split == "held_out"}
    canaries = [task.task_id for task in found.one.canaries()]
    both = [task_id for task_id in canaries if task_id in reported]
    if both:
        return False, f"task {both[0]!r} is a canary and held out"
    return True, f"{len(canaries)} canaries choose versions, {len(reported)} other tasks report"


async def _processes_agree(found: _Twice) -> tuple[bool, str]:
    for what, one, other in (
        ("opens with", found.opening, _opening(found.other)),
        ("scores", found.scored, found.other.scored_tasks()),
        ("draws", found.draws, _draws(found.other, found.config)),
    ):
        if _ids_and_bodies(one) != _ids_and_bodies(other):
            return False, f"a second instance {what} other tasks"
    return True, "two instances have the same tasks"


def _ids_and_bodies(found: Sequence[Task | Draw]) -> list[tuple[str, bytes]]:
    return [(each.task_id, bytes(each.body) if isinstance(each, Task) else b"") for each in found]


async def _tasks_are_described(found: _Twice) -> tuple[bool, str]:
    shown = (*tuple(found.trained.values())[: found.most], *found.scored[: found.most])
    for task in shown:
        if not found.one.describe(task).headline:
            return False, f"task {task.task_id!r} has no headline"
    return True, counted(len(shown), "task")


async def _error_of_a_score(found: _Twice) -> tuple[bool, str]:
    """Say how far the score of one version can be from that on all tasks of the kind."""
    tasks = sum(task.split == "held_out" for task in found.scored)
    if not tasks:
        return True, "no task is held out"
    points, wanted = half_width(tasks), FINE_TASKS
    said = f"{counted(tasks, 'held-out task')}: the 95 % interval of a score is up to "
    said += "\N{PLUS-MINUS SIGN} "
    more = f"; with {wanted} tasks \N{PLUS-MINUS SIGN} {half_width(wanted):.0f}"
    return True, f"{said}{points:.0f} points{more if tasks < wanted else ''}"


def half_width(tasks: int) -> float:
    """Return half the interval of a score of one half, in points."""
    low, high = wilson(0.5, tasks)
    return 100 * (high - low) / 2


_CHECKS: Checks[_Twice] = {
    "there are tasks": _tasks_exist,
    "drawn tasks are known": _draws_are_known,
    "held-out tasks are never drawn": _held_out_is_apart,
    "canaries are not held out": _canaries_are_apart,
    "processes agree": _processes_agree,
    "tasks are described": _tasks_are_described,
    "error of a score": _error_of_a_score,
}
