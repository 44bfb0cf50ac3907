"""Checks what an environment with tools rewards (`tools.conformance`)."""

from collections import Counter
from itertools import islice
from typing import Any

import msgspec

from coevolve.environments.findings import (
    DoubtError,
    counted,
)
from coevolve.environments.tools.adversary.found import Named
from coevolve.environments.tools.adversary.probes import Grading
from coevolve.environments.tools.adversary.words import texts_in
from coevolve.environments.tools.commands import Passed
from coevolve.environments.tools.conformance_subject import Subject, reference_calls
from coevolve.environments.tools.task import tool_task
from protocols.tasks import Task

ATTEMPTS = 5
"""Number of identical attempts at one task, which must get the same reward."""


MOST_NAMED = 6
"""Maximum number of tasks that a doubt names."""

MOST_ANSWERS = 8
"""Maximum number of a task's own values that are graded as answers."""


async def nothing_unearned(subject: Subject) -> tuple[bool, str]:
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


async def none_doubted(subject: Subject) -> tuple[bool, str]:
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


async def same_reward(subject: Subject) -> tuple[bool, str]:
    """Check that identical attempts get the same reward.

    The attempts are those whose rewards are checked, and one that does nothing.
    """
    flips = attempts = 0
    for number, task in enumerate(subject.tasks):
        made = [(reference_calls(task), words) for words in _words(task)]
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


async def rewards_fit(subject: Subject) -> tuple[bool, str]:
    """Check the rewards of attempts that make the reference's calls and answer in several ways.

    The answers are the instruction, and the values of the further fields of the task.
    """
    right = asked = 0
    for number, task in enumerate(subject.tasks):
        for n, words in enumerate(_words(task)):
            verdicts = await subject.verdict(
                f"fit-{number}-{n}", task, reference_calls(task), words
            )
            right += n > 0 and isinstance(verdicts[-1], Passed)
            asked += n > 0
    if not asked:
        return True, f"{len(subject.tasks)} attempts"
    return True, f"{right} of {asked} answers from the fields of tasks get full reward"


def _words(task: Task) -> list[str]:
    """Return answers to grade: the instruction, and the texts and numbers among further fields."""
    body = tool_task(task)
    fields: dict[str, Any] = msgspec.json.decode(body.extra or "{}", type=dict[str, Any])
    return [body.turns[0].instruction, *islice(texts_in(fields), MOST_ANSWERS)]
