"""Checks that an environment keeps what it promises, and says what the loop can do with it.

For environments with tools. Every check is a measurement on the environment's own tasks, in a
simulator's own process, as in a run.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from coevolve.environments.registry import config_of, environment_of
from coevolve.environments.tools.chat.tools import named_arguments, schemas
from coevolve.environments.tools.environment import ToolEnvironment
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.wire import ToolClient
from protocols.errors import CoevolveError, ConfigError
from protocols.simulation import Failed, Passed, Tried
from protocols.tasks import Task, ToolTask

State = Literal["holds", "fails", "absent"]

REMEDIES = {
    "replayable": "no synthesis of goals: the loop selects among given tasks",
    "state_digest": "verdicts by answers alone",
    "references": "no imitation, and candidates are admitted by attempts alone",
}
"""What the loop leaves out without a capability."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one check."""

    check: str
    state: State
    found: str
    """What was measured, or what is wrong and where."""


@dataclass(frozen=True)
class _Subject:
    environment: ToolEnvironment
    pool: SimulatorPool
    train: Sequence[Task]
    held_out: Sequence[Task]

    @property
    def tasks(self) -> Sequence[Task]:
        return (*self.train, *self.held_out)

    async def trial(self, name: str, body: ToolTask, calls: Sequence[Sequence[str]]) -> Tried:
        return await self.pool.trial(name, body, calls)


def environment_named(use: str, **settings: Any) -> ToolEnvironment:
    """Return the environment with tools that ``use`` names. Raises ConfigError."""
    environment = environment_of(config_of({"use": use} | settings))
    if not isinstance(environment, ToolEnvironment):
        raise ConfigError(f"environment.use: {use} has no tools, and these checks are for tools")
    return environment


async def conformance(environment: ToolEnvironment, most: int = 100) -> tuple[Finding, ...]:
    """Return the findings of every check, on at most ``most`` tasks of each split."""
    async with _opened(environment, most) as subject:
        return tuple([await _checked(name, check, subject) for name, check in CHECKS.items()])


@asynccontextmanager
async def _opened(environment: ToolEnvironment, most: int) -> AsyncGenerator[_Subject]:
    source = environment.source()
    simulator = environment.simulator()
    try:
        yield _Subject(
            environment=environment,
            pool=SimulatorPool([ToolClient(simulator)]),
            train=source.pool()[:most],
            held_out=source.held_out()[:most],
        )
    finally:
        await simulator.close()


async def _checked(
    name: str, check: Callable[[_Subject], Awaitable[tuple[State, str]]], subject: _Subject
) -> Finding:
    try:
        state, found = await check(subject)
    except (CoevolveError, ValueError) as error:
        state, found = "fails", str(error)
    return Finding(check=name, state=state, found=found)


async def _schemas_valid(subject: _Subject) -> tuple[State, str]:
    """Every call of a reference has the arguments that the schema names."""
    tools = schemas(subject.environment.tool_sets())
    known = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    for task in subject.tasks:
        for call in _calls(task.body):
            name, arguments = named_arguments(call, task.body.classes)
            unknown = set(arguments) - set(known[name]["properties"])
            if unknown:
                return "fails", f"{task.task_id}: {call}: no argument {', '.join(sorted(unknown))}"
    return "holds", f"{len(known)} tools"


async def _references_pass(subject: _Subject) -> tuple[State, str]:
    """Every reference passes twice, in fresh worlds."""
    tasks = [task for task in subject.tasks if _calls(task.body)]
    if not tasks:
        return "absent", REMEDIES["references"]
    for task in tasks:
        for attempt in range(2):
            tried = await subject.trial(f"reference-{attempt}", task.body, _reference(task.body))
            if reason := _fault(tried):
                return "fails", f"{task.task_id}, time {attempt + 1}: {reason}"
    return "holds", f"{len(tasks)} of {len(subject.tasks)} tasks have one"


async def _replayable(subject: _Subject) -> tuple[State, str]:
    """The same calls in the same world give the same answers."""
    for task in subject.tasks:
        one, other = [
            await subject.trial(f"replay-{n}", task.body, _reference(task.body)) for n in range(2)
        ]
        answers = [[turn.observed for turn in tried.turns] for tried in (one, other)]
        if answers[0] != answers[1]:
            return "absent", f"{task.task_id} answers otherwise; {REMEDIES['replayable']}"
    return "holds", f"{len(subject.tasks)} tasks twice"


async def _state_digest(subject: _Subject) -> tuple[State, str]:
    """The same calls lead to the same state, and some calls to another one than before."""
    changed = 0
    for task in subject.tasks:
        one, other = [
            await subject.trial(f"digest-{n}", task.body, _reference(task.body)) for n in range(2)
        ]
        if [turn.state for turn in one.turns] != [turn.state for turn in other.turns]:
            return "absent", f"{task.task_id} ends otherwise; {REMEDIES['state_digest']}"
        changed += any(turn.state != one.initial for turn in one.turns)
    if not changed:
        return "absent", f"no reference changes the state; {REMEDIES['state_digest']}"
    return "holds", f"{changed} of {len(subject.tasks)} references change the state"


async def _separate_sessions(subject: _Subject) -> tuple[State, str]:
    """What one session does is seen neither in another one nor in a world that is opened later."""
    pool = subject.pool
    for number, task in enumerate(subject.tasks):
        alone = await subject.trial("alone", task.body, _reference(task.body))
        expected = [each.result for turn in alone.turns for each in turn.observed]
        for name in (f"one-{number}", f"other-{number}"):
            await pool.reset(name, task.body)
        for name in (f"one-{number}", f"other-{number}"):
            answers = [(await pool.act(name, call)).result for call in _calls(task.body)]
            if answers != expected:
                return "fails", f"{task.task_id}: a session sees what another one did"
            await pool.release(name)
    return "holds", f"{len(subject.tasks)} pairs"


async def _nothing_fails(subject: _Subject) -> tuple[State, str]:
    """Doing nothing does not solve a task."""
    passed: list[str] = []
    for number, task in enumerate(subject.tasks):
        name = f"idle-{number}"
        await subject.pool.reset(name, task.body)
        verdicts = [await subject.pool.grade(name) for _ in task.body.turns]
        await subject.pool.release(name)
        if all(isinstance(verdict, Passed) for verdict in verdicts):
            passed.append(task.task_id)
    if passed:
        return "fails", f"{len(passed)} tasks pass without a call, such as {passed[0]}"
    return "holds", f"{len(subject.tasks)} tasks fail without a call"


async def _disjoint_worlds(subject: _Subject) -> tuple[State, str]:
    """No world of a training task is that of a held-out one."""
    shared = {t.body.world for t in subject.train} & {t.body.world for t in subject.held_out}
    if shared:
        task = next(t for t in subject.held_out if t.body.world in shared)
        return "fails", f"{len(shared)} worlds are on both sides, such as that of {task.task_id}"
    return "holds", f"{len(subject.train)} training tasks, {len(subject.held_out)} held out"


async def _speed(subject: _Subject) -> tuple[State, str]:
    """Count the calls that one simulator carries out in a second, many sessions at a time."""
    tasks = [task for task in subject.tasks if _calls(task.body)]
    if not tasks:
        return "absent", "no reference to measure with"
    started, calls = time.perf_counter(), sum(len(_calls(task.body)) for task in tasks)
    names = [f"speed-{number}" for number in range(len(tasks))]
    await asyncio.gather(
        *(
            subject.trial(name, task.body, _reference(task.body))
            for name, task in zip(names, tasks, strict=True)
        )
    )
    return "holds", f"{calls / (time.perf_counter() - started):,.0f} calls a second"


CHECKS: dict[str, Callable[[_Subject], Awaitable[tuple[State, str]]]] = {
    "schemas are valid": _schemas_valid,
    "references": _references_pass,
    "replayable": _replayable,
    "state_digest": _state_digest,
    "sessions are separate": _separate_sessions,
    "doing nothing fails": _nothing_fails,
    "worlds of the splits are disjoint": _disjoint_worlds,
    "speed": _speed,
}


def _calls(body: ToolTask) -> list[str]:
    return [call for turn in body.turns for call in turn.reference]


def _reference(body: ToolTask) -> list[tuple[str, ...]]:
    return [turn.reference for turn in body.turns]


def _fault(tried: Tried) -> str:
    for number, turn in enumerate(tried.turns, start=1):
        if isinstance(turn.verdict, Failed):
            return f"turn {number} fails: {turn.verdict.reason}"
        if failed := next((each for each in turn.observed if each.failed), None):
            return f"turn {number} answers by an error: {failed.result}"
    return ""
