"""Conformance checks of an environment with tools.

Every check is a measurement on the environment's own tasks. As in a run, the tools run in a
simulator's process.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from coevolve.environments.findings import (
    EARNED,
    Checks,
    DoubtError,
    Finding,
    UnfitError,
    UnmeasuredError,
    counted,
    findings,
)
from coevolve.environments.tools.adversary.probes import Grading
from coevolve.environments.tools.chat.tools import named_arguments, schemas
from coevolve.environments.tools.conformance_rewards import (
    none_doubted,
    nothing_unearned,
    rewards_fit,
    same_reward,
)
from coevolve.environments.tools.conformance_subject import (
    DETERMINISTIC,
    Subject,
    answers_of,
    reference_calls,
    seen_in,
)
from coevolve.environments.tools.endings import HOST_REACHED, HOST_REMEDY
from coevolve.environments.tools.instances import Instances
from coevolve.environments.tools.interfaces import ToolSource
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.simple import REWARD, plain_class
from coevolve.environments.tools.source import (
    LEAKS,
    OTHER_ANSWERS,
    OTHER_STATE,
    FixedSource,
    fault,
    left_out_words,
    named_tasks,
)
from coevolve.environments.tools.task import tool_task
from coevolve.environments.tools.vocabulary import Vocabulary, named
from coevolve.environments.tools.wire import ToolClient, ToolService
from protocols.capabilities import Capabilities
from protocols.tasks import Task

SLOW_RATE = 5.0
"""Calls per second below which a check names the slowest tool."""

ENOUGH_NAMED = 10
"""Fewer tasks with a name than this may lack other names that can take its place."""

RENAMING = (
    "none plays alike under names that training tasks give the same parameter: let tools and state "
    "depend on what a world holds, or let more training tasks name others"
)

DOUBTED = "no task is in doubt"

LEAKING = "with requests of held-out ones, so a run does not train on them"


async def conformance(
    source: ToolSource,
    simulator: ToolService,
    tool_sets: Sequence[str],
    claimed: Capabilities,
    grading: Grading,
    most: int,
) -> tuple[Finding, ...]:
    """Return the findings of every check, on at most ``most`` tasks of each split."""
    subject = Subject(
        tool_sets=tuple(tool_sets),
        pool=SimulatorPool([ToolClient(simulator)]),
        train=source.pool()[:most],
        held_out=source.held_out()[:most],
        left_out=source.left_out if isinstance(source, FixedSource) else {},
        played=source.adversary if isinstance(source, FixedSource) else None,
        claimed=claimed,
        service=simulator,
        grading=grading,
    )
    try:
        return await findings(CHECKS, subject, claimed)
    finally:
        await simulator.close()


async def _schemas_valid(subject: Subject) -> tuple[bool, str]:
    """Check that every call of a reference has only arguments of its schema."""
    tools = schemas(subject.tool_sets)
    known = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    for task in subject.tasks:
        for call in reference_calls(task):
            name, arguments = named_arguments(call, tool_task(task).classes)
            unknown = set(arguments) - set(known[name]["properties"])
            if unknown:
                return False, f"{task.task_id}: {call}: no argument {', '.join(sorted(unknown))}"
    return True, counted(len(known), "tool")


async def _references_pass(subject: Subject) -> tuple[bool, str]:
    """Check that every reference passes twice, in new worlds, and that none was left out."""
    unfit = {name: reason for name, reason in subject.left_out.items() if reason != LEAKS}
    if unfit:
        # Tools that vary come last: other checks name them, too.
        varying_last = sorted(unfit.items(), key=lambda each: _varies(each[1]))
        reason = left_out_words(dict(varying_last))
        raise UnfitError("; ".join(filter(None, (reason, _remedy(reason)))))
    tasks = [task for task in subject.tasks if reference_calls(task)]
    if not tasks:
        return False, "no task has a reference"
    for task in tasks:
        for attempt in range(2):
            tried = await subject.carried_out(f"reference-{attempt}", task)
            if reason := fault(tried):
                return False, f"{task.task_id}, attempt {attempt + 1}: {reason}"
    return True, f"{len(tasks)} of {counted(len(subject.tasks), 'task')} have a reference"


async def _replayable(subject: Subject) -> tuple[bool, str]:
    """Check that the same calls in the same world give the same answers."""
    subject.refuse(OTHER_ANSWERS)
    if not any(map(reference_calls, subject.tasks)):
        raise UnmeasuredError("no task has a reference")
    for task in subject.tasks:
        one, other = [await subject.carried_out(f"replay-{n}", task) for n in range(2)]
        for call, first, second in zip(
            reference_calls(task), answers_of(one), answers_of(other), strict=True
        ):
            if first != second:
                tool = call.partition("(")[0]
                shown = f"{first!r:.60}, {second!r:.60}"
                return False, f"{task.task_id}: {tool} {OTHER_ANSWERS}: {shown}"
    return True, f"{counted(len(subject.tasks), 'task')}, twice each"


async def _state_digest(subject: Subject) -> tuple[bool, str]:
    """Check that the same calls lead to the same state, and that some calls change the state."""
    subject.refuse(OTHER_STATE)
    changed = 0
    for task in subject.tasks:
        one, other = [await subject.carried_out(f"digest-{n}", task) for n in range(2)]
        if [turn.state for turn in one.turns] != [turn.state for turn in other.turns]:
            return False, f"{task.task_id} ends in another state the second time"
        changed += any(turn.state != one.initial for turn in one.turns)
    if not changed:
        _refuse_unseen_changes(subject)
        raise UnmeasuredError("all your tasks only read")
    return True, f"{changed} of {len(subject.tasks)} references change the state"


def _refuse_unseen_changes(subject: Subject) -> None:
    """Raise UnfitError or DoubtError if references change what the state does not show."""
    if subject.grading.rewards and not subject.grading.judges_words:
        raise UnfitError(
            "reward() judges what calls change, but no reference changes the state that is "
            "compared; keep what calls change in attributes of the object, or return it from "
            "state()"
        )
    classes = [plain_class(name) for name in subject.tool_sets if ":" in name]
    if any(hasattr(each, "state") for each in classes):
        raise DoubtError(
            "no reference changes what state() returns; that is right if all your tasks only read, "
            "otherwise let it return all that calls change"
        )


async def _fresh_instances(subject: Subject) -> tuple[bool, str]:
    """Check that some tasks have an instance with names of others.

    An environment may declare it whose tasks do not name enough for that.
    """
    names = Vocabulary(map(tool_task, subject.train))
    made = await Instances(subject.pool, names).of(subject.tasks, seed=1)
    naming = [each for task in subject.tasks for each in list(named(tool_task(task)))[:1]]
    found = f"{len(made)} of {len(subject.tasks)} tasks have an instance"
    if made:
        return True, found
    found += f", {len(naming)} name what could have another name"
    if not (subject.claimed.fresh_instances and len(naming) < ENOUGH_NAMED):
        return False, f"{found}, such as {naming[0]!r}; {RENAMING}" if naming else found
    return True, found


async def _separate_sessions(subject: Subject) -> tuple[bool, str]:
    """Check that two sessions side by side, in two worlds if possible, do not affect each other."""
    for number, task in enumerate(subject.tasks):
        others = (*subject.tasks[number + 1 :], *subject.tasks[:number])
        other = next((each for each in others if _content(each) != _content(task)), task)
        pair = {f"one-{number}": task, f"other-{number}": other}
        alone = [await subject.carried_out(name, each) for name, each in pair.items()]
        if await subject.side_by_side(pair) != list(map(seen_in, alone)):
            return False, f"{task.task_id} and {other.task_id}: a session sees what another one did"
    return True, counted(len(subject.tasks), "pair")


async def _disjoint_worlds(subject: Subject) -> tuple[bool, str]:
    """Check that the splits share no world, or, for tasks without worlds, no instructions."""
    if shared := shared_content(subject.train, subject.held_out):
        return False, shared
    train = counted(len(subject.train), "training task")
    held_out = named_tasks([task.task_id for task in subject.held_out])
    found = f"{train}, {len(subject.held_out)} held out ({held_out})"
    leaking = [name for name, reason in subject.left_out.items() if reason == LEAKS]
    others = f"; {counted(len(leaking), 'more task')} ({named_tasks(leaking)}) {LEAKING}"
    return True, found + (others if leaking else "")


async def _speed(subject: Subject) -> tuple[bool, str]:
    """Measure the calls per second of one simulator with many sessions at once."""
    tasks = [task for task in subject.tasks if reference_calls(task)]
    if not tasks:
        return True, "no task has a reference to measure with"
    started, calls = time.perf_counter(), sum(len(reference_calls(task)) for task in tasks)
    names = [f"speed-{number}" for number in range(len(tasks))]
    await asyncio.gather(
        *(subject.carried_out(name, task) for name, task in zip(names, tasks, strict=True))
    )
    rate = calls / (time.perf_counter() - started)
    if rate < SLOW_RATE:
        took_s = await _slowest(subject, tasks)
        tool = max(took_s, key=lambda name: took_s[name])
        raise DoubtError(
            f"{rate:,.2g} calls per second; {tool} takes {took_s[tool]:.1f} s, and each rollout "
            "waits for it: make it faster, or raise simulator.workers"
        )
    return True, f"{rate:,.0f} calls per second"


async def _slowest(subject: Subject, tasks: Sequence[Task]) -> dict[str, float]:
    """Return the seconds of a new world, and of a call of each tool that references call."""
    took_s: dict[str, float] = {}
    for task in tasks:
        tools = [call.partition("(")[0] for call in reference_calls(task)]
        if not set(tools) <= took_s.keys():
            started = time.perf_counter()
            await subject.pool.reset("slowest", tool_task(task))
            took_s["a new world"] = time.perf_counter() - started
            try:
                for tool, call in zip(tools, reference_calls(task), strict=True):
                    started = time.perf_counter()
                    await subject.pool.act("slowest", call)
                    took_s[tool] = time.perf_counter() - started
            finally:
                await subject.pool.release("slowest")
    return took_s


CHECKS: Checks[Subject] = {
    "schemas are valid": _schemas_valid,
    "references": _references_pass,
    "replayable": _replayable,
    "state_digest": _state_digest,
    "fresh_instances": _fresh_instances,
    "sessions are separate": _separate_sessions,
    "rewards are from 0 to 1": rewards_fit,
    "deterministic_reward": same_reward,
    EARNED: nothing_unearned,
    DOUBTED: none_doubted,
    "worlds of the splits are disjoint": _disjoint_worlds,
    "speed": _speed,
}


def _varies(reason: str) -> bool:
    return OTHER_ANSWERS in reason or OTHER_STATE in reason


def _remedy(reason: str) -> str:
    """Return what to do about the reason for which a task was left out; empty if it says so."""
    if _varies(reason):
        return DETERMINISTIC
    if "state()" in reason:
        return ""
    if HOST_REACHED in reason:
        return HOST_REMEDY
    fault = "correct its reference, its world or the tool"
    return "correct the reward" if REWARD in reason else fault


def shared_content(train: Sequence[Task], held_out: Sequence[Task]) -> str:
    """Return how many held-out tasks have worlds, or instructions, of training tasks, if any."""
    trained = set(map(_content, train))
    shared = [each.task_id for each in held_out if _content(each) in trained]
    if not shared:
        return ""
    return (
        f"{len(shared)} of {counted(len(held_out), 'held-out task')} have the world, or without "
        f"worlds the instructions, of a training task, such as {shared[0]}"
    )


def _content(task: Task) -> tuple[str, ...]:
    """Return the content that must not appear in both splits."""
    body = tool_task(task)
    worlds = msgspec.json.decode(body.world, type=dict[str, Any]).values()
    if any(world is not None for world in worlds):
        return (body.world,)
    return tuple(turn.instruction for turn in body.turns)
