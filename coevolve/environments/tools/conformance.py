"""Conformance checks of an environment with tools.

Every check is a measurement on the environment's own tasks. As in a run, the tools run in a
simulator's process.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
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
from coevolve.environments.tools.adversary.found import Named
from coevolve.environments.tools.adversary.grading import Grading
from coevolve.environments.tools.adversary.play import solved
from coevolve.environments.tools.adversary.words import texts_in
from coevolve.environments.tools.chat.tools import named_arguments, schemas
from coevolve.environments.tools.commands import Passed, Tried
from coevolve.environments.tools.endings import HOST_REACHED
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
)
from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.environments.tools.vocabulary import Vocabulary, named
from coevolve.environments.tools.wire import ToolClient, ToolService
from protocols.capabilities import Capabilities
from protocols.errors import SimulatorError
from protocols.tasks import Task

ATTEMPTS = 5
"""Number of identical attempts at one task, which must get the same reward."""


END_OF_TURN = ""

ENOUGH_NAMED = 10
"""Fewer tasks with a name than this may lack other names that can take its place."""

DOUBTED = "no task is in doubt"

DETERMINISTIC = "make the tools deterministic: take what varies from the world"

LEAKING = "share their requests with held-out ones, so a run does not train on them"

MOST_NAMED = 6
"""Maximum number of tasks that a doubt names."""

MOST_ANSWERS = 8
"""Maximum number of a task's own values that are graded as answers."""

_Seen = tuple[list[str], str]
"""The answers of a session, and its last state."""


@dataclass(frozen=True)
class _Subject:
    tool_sets: tuple[str, ...]
    pool: SimulatorPool
    train: Sequence[Task]
    held_out: Sequence[Task]
    left_out: Mapping[str, str]
    played: Named | None
    """What the adversary found as the tasks were opened; None if it was not played then."""

    claimed: Capabilities
    service: ToolService
    grading: Grading

    @property
    def tasks(self) -> Sequence[Task]:
        return (*self.train, *self.held_out)

    async def unearned(self) -> Named:
        """Return what the adversary finds; it plays if it has not played."""
        if self.played is not None:
            return self.played
        bodies = list(map(tool_task, self.tasks))
        found = await solved(bodies, self.pool, self.service, self.grading)
        return found.named([task.task_id for task in self.tasks])

    async def verdict(
        self, session: str, task: Task, calls: Sequence[str] = (), words: str = ""
    ) -> tuple[object, ...]:
        """Return the verdicts on an attempt: all calls in its first turn, words in each.

        Raises UnfitError if the attempt cannot be graded.
        """
        body = tool_task(task)
        await self.pool.reset(session, body)
        try:
            for call in calls:
                await self.pool.act(session, call)
            return tuple([await self.pool.grade(session, words) for _ in body.turns])
        except SimulatorError as error:
            raise UnfitError(f"{task.task_id}, answer {words!r:.60}: {error}") from error
        finally:
            await self.pool.release(session)

    async def side_by_side(self, tasks: Mapping[str, Task]) -> list[_Seen]:
        """Return the results of sessions that are opened together and take turns, call by call."""
        bodies = {name: tool_task(task) for name, task in tasks.items()}
        answers: dict[str, list[str]] = {name: [] for name in tasks}
        for name, body in bodies.items():
            await self.pool.reset(name, body)
        for steps in zip_longest(*map(_steps, bodies.values())):
            for name, step in zip(bodies, steps, strict=True):
                if step == END_OF_TURN:
                    await self.pool.grade(name)
                elif step is not None:
                    answers[name].append((await self.pool.act(name, step)).result)
        seen = [(answers[name], await self.pool.look(name)) for name in bodies]
        for name in bodies:
            await self.pool.release(name)
        return seen

    def refuse(self, reason: str) -> None:
        """Raise UnfitError if tasks were left out for this reason."""
        for task_id, found in self.left_out.items():
            if reason in found:
                raise UnfitError(f"{task_id}: {found}; {DETERMINISTIC}")

    async def carried_out(self, name: str, task: Task) -> Tried:
        """Return the results of the task's reference in a separate world."""
        body = tool_task(task)
        return await self.pool.trial(name, body, body.references)


async def conformance(
    source: ToolSource,
    simulator: ToolService,
    tool_sets: Sequence[str],
    claimed: Capabilities,
    grading: Grading,
    most: int,
) -> tuple[Finding, ...]:
    """Return the findings of every check, on at most ``most`` tasks of each split."""
    subject = _Subject(
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


async def _schemas_valid(subject: _Subject) -> tuple[bool, str]:
    """Check that every call of a reference has only arguments of its schema."""
    tools = schemas(subject.tool_sets)
    known = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    for task in subject.tasks:
        for call in _calls(task):
            name, arguments = named_arguments(call, tool_task(task).classes)
            unknown = set(arguments) - set(known[name]["properties"])
            if unknown:
                return False, f"{task.task_id}: {call}: no argument {', '.join(sorted(unknown))}"
    return True, counted(len(known), "tool")


async def _references_pass(subject: _Subject) -> tuple[bool, str]:
    """Check that every reference passes twice, in new worlds, and that none was left out."""
    unfit = {name: reason for name, reason in subject.left_out.items() if reason != LEAKS}
    if unfit:
        # Tools that vary come last: other checks name them, too.
        varying_last = sorted(unfit.items(), key=lambda each: _varies(each[1]))
        reason = left_out_words(dict(varying_last))
        raise UnfitError("; ".join(filter(None, (reason, _remedy(reason)))))
    tasks = [task for task in subject.tasks if _calls(task)]
    if not tasks:
        return False, "no task has a reference"
    for task in tasks:
        for attempt in range(2):
            tried = await subject.carried_out(f"reference-{attempt}", task)
            if reason := fault(tried):
                return False, f"{task.task_id}, attempt {attempt + 1}: {reason}"
    return True, f"{len(tasks)} of {counted(len(subject.tasks), 'task')} have a reference"


async def _replayable(subject: _Subject) -> tuple[bool, str]:
    """Check that the same calls in the same world give the same answers."""
    subject.refuse(OTHER_ANSWERS)
    if not any(map(_calls, subject.tasks)):
        raise UnmeasuredError("no task has a reference")
    for task in subject.tasks:
        one, other = [await subject.carried_out(f"replay-{n}", task) for n in range(2)]
        for call, first, second in zip(_calls(task), _answers(one), _answers(other), strict=True):
            if first != second:
                tool = call.partition("(")[0]
                shown = f"{first!r:.60}, {second!r:.60}"
                return False, f"{task.task_id}: {tool} {OTHER_ANSWERS}: {shown}"
    return True, f"{counted(len(subject.tasks), 'task')}, twice each"


async def _state_digest(subject: _Subject) -> tuple[bool, str]:
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


def _refuse_unseen_changes(subject: _Subject) -> None:
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


async def _fresh_instances(subject: _Subject) -> tuple[bool, str]:
    """Check that some tasks have an instance with names of others.

    An environment may declare it whose tasks do not name enough for that.
    """
    names = Vocabulary(map(tool_task, subject.train))
    made = await Instances(subject.pool, names).of(subject.tasks, seed=1)
    naming = sum(bool(named(tool_task(task))) for task in subject.tasks)
    holds = bool(made) or (subject.claimed.fresh_instances and naming < ENOUGH_NAMED)
    found = f"{len(made)} of {len(subject.tasks)} tasks have an instance"
    return holds, f"{found}, {naming} name what could have another name" if not made else found


async def _separate_sessions(subject: _Subject) -> tuple[bool, str]:
    """Check that two sessions side by side, in two worlds if possible, do not affect each other."""
    for number, task in enumerate(subject.tasks):
        others = (*subject.tasks[number + 1 :], *subject.tasks[:number])
        other = next((each for each in others if _content(each) != _content(task)), task)
        pair = {f"one-{number}": task, f"other-{number}": other}
        alone = [await subject.carried_out(name, each) for name, each in pair.items()]
        if await subject.side_by_side(pair) != list(map(_seen, alone)):
            return False, f"{task.task_id} and {other.task_id}: a session sees what another one did"
    return True, counted(len(subject.tasks), "pair")


async def _nothing_unearned(subject: _Subject) -> tuple[bool, str]:
    """Check that no task is solved by the cheap adversary (`tools.adversary`)."""
    found = await subject.unearned()
    if not found.solved:
        none = f"{counted(len(subject.tasks), 'task')}, none is solved without doing what it asks"
        return True, none + _idle_words(found)
    by_kind: dict[str, list[str]] = {}
    for task_id, how in found.solved.items():
        by_kind.setdefault(how.partition(" (")[0], []).append(task_id)
    named = "; ".join(f"{', '.join(names)}: {found.solved[names[0]]}" for names in by_kind.values())
    count = len(found.solved)
    tasks = "1 task is solved without doing what it asks, and a run leaves it out"
    if count > 1:
        tasks = f"{count} tasks are solved without doing what they ask, and a run leaves them out"
    return False, f"{tasks} (environment.unearned): {named}. {_grade_remedy(subject.grading)}"


def _idle_words(found: Named) -> str:
    """Return what doing nothing earns; empty for nothing."""
    if not found.idle_reward:
        return ""
    return f"; doing nothing earns up to {found.idle_reward:g} of the reward"


async def _none_doubted(subject: _Subject) -> tuple[bool, str]:
    """Report what only the author of the tasks can tell to be right or wrong."""
    if not subject.grading.is_own:
        return True, "not looked for: the verdicts are those of a benchmark"
    found = await subject.unearned()
    if not found.doubts:
        tasks = counted(len(subject.tasks), "task")
        return True, f"{tasks}, no call and no argument was found that does not count"
    named = "; ".join(
        f"{', '.join(names[:MOST_NAMED])}{' and others' if len(names) > MOST_NAMED else ''} {what}"
        for what, names in found.doubts.items()
    )
    remedy = "if they ask for it, let reward(), the state or the reference show it"
    raise DoubtError(f"look at these tasks: {named}{_idle_words(found)}; {remedy}")


def _grade_remedy(grading: Grading) -> str:
    """Return how to grade so that only what was asked is rewarded."""
    if grading.judges_words:
        return (
            "Let reward() compare the whole answer, or one part of it that the instruction names, "
            "with the value that is right: no test of its length or of what it contains, no eval, "
            "and no reward where it raises"
        )
    if grading.rewards:
        return "Let reward() compare what the calls changed with what the task asks"
    return (
        "Let the state, or the answers of the tools, show what the reference does (state(), if the "
        "class has it, returns all that calls change), or add calls to the reference that do"
    )


async def _same_reward(subject: _Subject) -> tuple[bool, str]:
    """Check that identical attempts get the same reward.

    The attempts are those whose rewards are checked, and one that does nothing.
    """
    flips = attempts = 0
    for number, task in enumerate(subject.tasks):
        made = [(_calls(task), words) for words in _words(task)]
        for calls, words in (*made, ([], "")):
            verdicts = [
                await subject.verdict(f"reward-{number}-{n}", task, calls, words)
                for n in range(ATTEMPTS)
            ]
            flips += ATTEMPTS - Counter(verdicts).most_common(1)[0][1]
            attempts += ATTEMPTS
    if flips:
        rate = flips / attempts
        return False, f"{rate:.2g} of {attempts} attempts: set signals.reward_flip_rate to it"
    return True, f"{attempts} attempts"


async def _rewards_fit(subject: _Subject) -> tuple[bool, str]:
    """Check the rewards of attempts that make the reference's calls and answer in several ways.

    The answers are the instruction, and the values of the further fields of the task.
    """
    right = asked = 0
    for number, task in enumerate(subject.tasks):
        for n, words in enumerate(_words(task)):
            verdicts = await subject.verdict(f"fit-{number}-{n}", task, _calls(task), words)
            right += n > 0 and isinstance(verdicts[-1], Passed)
            asked += n > 0
    if not asked:
        return True, f"{len(subject.tasks)} attempts"
    return True, f"{right} of {asked} answers from the fields of tasks get full reward"


async def _disjoint_worlds(subject: _Subject) -> tuple[bool, str]:
    """Check that the splits share no world, or, for tasks without worlds, no instructions."""
    if shared := shared_content(subject.train, subject.held_out):
        return False, shared
    train = counted(len(subject.train), "training task")
    found = f"{train}, {len(subject.held_out)} held out"
    leaking = sum(reason == LEAKS for reason in subject.left_out.values())
    return True, found + (f"; {leaking} others {LEAKING}" if leaking else "")


async def _speed(subject: _Subject) -> tuple[bool, str]:
    """Measure the calls per second of one simulator with many sessions at once."""
    tasks = [task for task in subject.tasks if _calls(task)]
    if not tasks:
        return True, "no task has a reference to measure with"
    started, calls = time.perf_counter(), sum(len(_calls(task)) for task in tasks)
    names = [f"speed-{number}" for number in range(len(tasks))]
    await asyncio.gather(
        *(subject.carried_out(name, task) for name, task in zip(names, tasks, strict=True))
    )
    return True, f"{calls / (time.perf_counter() - started):,.0f} calls per second"


CHECKS: Checks[_Subject] = {
    "schemas are valid": _schemas_valid,
    "references": _references_pass,
    "replayable": _replayable,
    "state_digest": _state_digest,
    "fresh_instances": _fresh_instances,
    "sessions are separate": _separate_sessions,
    "rewards are from 0 to 1": _rewards_fit,
    "deterministic_reward": _same_reward,
    EARNED: _nothing_unearned,
    DOUBTED: _none_doubted,
    "worlds of the splits are disjoint": _disjoint_worlds,
    "speed": _speed,
}


def _calls(task: Task) -> list[str]:
    return [call for turn in tool_task(task).turns for call in turn.reference]


def _steps(body: ToolTask) -> list[str]:
    """Return the reference's calls, with a mark at the end of each turn."""
    return [step for turn in body.turns for step in (*turn.reference, END_OF_TURN)]


def _varies(reason: str) -> bool:
    return OTHER_ANSWERS in reason or OTHER_STATE in reason


def _remedy(reason: str) -> str:
    """Return what to do about the reason for which a task was left out; empty if it says so."""
    if _varies(reason):
        return DETERMINISTIC
    if "state()" in reason:
        return ""
    if HOST_REACHED in reason:
        return "read the files that the tools need when their module is imported"
    return "correct the reward" if REWARD in reason else "correct its reference or its world"


def _answers(tried: Tried) -> list[str]:
    return [each.result for turn in tried.turns for each in turn.observed]


def _seen(tried: Tried) -> _Seen:
    return _answers(tried), tried.turns[-1].state


def _words(task: Task) -> list[str]:
    """Return answers to grade: the instruction, and the texts and numbers among further fields."""
    body = tool_task(task)
    fields: dict[str, Any] = msgspec.json.decode(body.extra or "{}", type=dict[str, Any])
    return [body.turns[0].instruction, *islice(texts_in(fields), MOST_ANSWERS)]


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
