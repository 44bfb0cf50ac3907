"""Source of given tasks, for training and for scoring.

Training and held-out tasks never share a world, for any seed of the run: no training task, and no
exploration start, has the world of a held-out task. A training task that shares its requests with a
held-out one (`gates.similarity`) is left out, too. Opening the source executes every reference and
records its answers in the task. A task is left out, and counted, if its reference fails or answers
with an error, or if the cheap adversary solves it (`tools.adversary`).
"""

import contextlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Protocol

import msgspec
import structlog

from coevolve.base.similar import did_you_mean
from coevolve.environments.findings import counted
from coevolve.environments.tools.adversary.found import Named
from coevolve.environments.tools.calls import NotACallError, RefusedCallError, parse_call
from coevolve.environments.tools.commands import Broken, Failed, Tried, with_results
from coevolve.environments.tools.digest import DEFINE_STATE
from coevolve.environments.tools.endings import HOST_REACHED, HOST_REMEDY
from coevolve.environments.tools.gates.similarity import SAME_REQUEST, Likenesses
from coevolve.environments.tools.references import Player, played_here
from coevolve.environments.tools.simple import UNCOMPARED
from coevolve.environments.tools.split_tasks import SplitTasks, Streams, shuffled
from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.environments.tools.toolset import STATE_MISMATCH
from coevolve.environments.tools.toolsets import tool_documents
from protocols.config import RunConfig
from protocols.errors import ConfigError
from protocols.tasks import Split, Task, body_of

_HELD_OUT_STREAM = 1
_CANARY_STREAM = 5
_STREAMS = Streams(pool=2, choice=3, start=4)

MAX_NAMED = 12
"""Tasks that a message names."""

LEAKS = "shares its requests word for word with a held-out task"
UNEARNED = "is solved without doing what it asks"
OTHER_ANSWERS = "returned different answers for the same call"
OTHER_STATE = "led to different states of the same world"

UNKNOWN = re.compile(r"name '(\w+)' is not defined")
"""What Python says of a call of no tool."""

log = structlog.get_logger()


Adversary = Callable[[Sequence[Task]], Named]
"""Returns how tasks are solved without doing what they ask."""


class FixedSettings(Protocol):
    """Settings that every environment with given tasks has."""

    @property
    def seeds(self) -> int:
        """Maximum number of training tasks that the run starts with."""
        ...

    @property
    def held_out(self) -> int:
        """Maximum number of held-out tasks."""
        ...

    @property
    def split_seed(self) -> int:
        """Seed that decides which worlds are held out."""
        ...

    @property
    def held_out_share(self) -> float:
        """Share of the worlds that are held out."""
        ...


class FixedSource(SplitTasks):
    """Given tasks whose references were executed."""

    left_out: dict[str, str]
    """Tasks whose reference does not pass here, or that leak, or are unearned -> the reason."""

    undrawn: dict[str, int]
    """Setting -> number of good tasks beyond it, which the run does not use."""

    adversary: Named | None
    """What the cheap adversary found; None if it was not played."""

    def __init__(
        self,
        config: RunConfig,
        settings: FixedSettings,
        given: Sequence[Task],
        *,
        certain: bool = True,
        played: Player = played_here,
        adversary: Adversary | None = None,
        keeps_unearned: bool = False,
    ) -> None:
        """Execute every reference. Raises ConfigError if one side of the split is empty.

        ``played`` executes them. If verdicts are not ``certain``, a task is kept even if its
        reference fails by the verdict. What the ``adversary`` solves is left out, or kept.
        """
        tasks, self.left_out = _checked(given, played, certain=certain)
        self.adversary = None if adversary is None else adversary(tasks)
        if self.unearned and not keeps_unearned:
            tasks = [task for task in tasks if task.task_id not in self.unearned]
            self.left_out |= {name: f"{UNEARNED}: {how}" for name, how in self.unearned.items()}
        held_out = _of_split(tasks, "held_out", (settings.split_seed, _HELD_OUT_STREAM))
        scored = held_out[: settings.held_out]
        tasks, leaking = _apart(tasks, scored)
        self.left_out |= leaking
        train = _of_split(tasks, "train", (settings.split_seed, _CANARY_STREAM))
        super().__init__(config, train, scored, seeds=settings.seeds, streams=_STREAMS)
        self.undrawn = {
            "seeds": len(self._train) - len(self._pool),
            "held_out": len(held_out) - len(scored),
        }
        if not (self._train and held_out):
            train = counted(len(self._train), "training task")
            left = f"{train} and {counted(len(held_out), 'held-out task')}"
            raise ConfigError(_too_few(settings, left, len(given), left_out_words(self.left_out)))
        if self.left_out:
            _warn(tuple(self.left_out.items()))

    @property
    def unearned(self) -> Mapping[str, str]:
        """Tasks that the cheap adversary solves -> how."""
        return {} if self.adversary is None else self.adversary.solved


def _checked(
    given: Sequence[Task], played: Player, *, certain: bool
) -> tuple[list[Task], dict[str, str]]:
    """Return the tasks whose reference passes, with its answers, and the reasons for the others."""
    passed: list[Task] = []
    left_out: dict[str, str] = {}
    for task, outcome in zip(given, played(given), strict=True):
        if isinstance(outcome, Broken):
            left_out[task.task_id] = outcome.reason
        elif reason := fault(outcome, certain=certain and _has_reference(task)):
            left_out[task.task_id] = reason + _meant(reason, outcome, tool_task(task))
        else:
            body = body_of(with_results(tool_task(task), outcome))
            passed.append(msgspec.structs.replace(task, body=body))
    return passed, left_out


def _meant(reason: str, tried: Tried, task: ToolTask) -> str:
    """Return the hint at the tool or argument that an unknown one means; empty if there is none."""
    documents = {each.name: each for name in task.classes for each in tool_documents(name)}
    if unknown := UNKNOWN.search(reason):
        return did_you_mean(unknown[1], documents)
    played = zip(task.turns, tried.turns, strict=False)
    calls = (
        pair for turn, each in played for pair in zip(turn.reference, each.observed, strict=False)
    )
    text = next((text for text, answer in calls if answer.failed), "")
    with contextlib.suppress(NotACallError, RefusedCallError):
        call = parse_call(text, documents)
        known = documents[call.tool].parameters.get("properties", {})
        for name in (each for each in call.named if each not in known):
            return f"; {call.tool} has no argument {name!r}{did_you_mean(name, known)}"
    return ""


def _apart(tasks: Sequence[Task], held_out: Sequence[Task]) -> tuple[list[Task], dict[str, str]]:
    """Return the tasks without training tasks that leak, and the reasons for these."""
    scored = Likenesses(SAME_REQUEST)
    for task in held_out:
        scored.add(task.task_id, task.body)
    train = (task for task in tasks if task.split == "train")
    leaking = {task.task_id: LEAKS for task in train if scored.shares_requests(task.body)}
    return [task for task in tasks if task.task_id not in leaking], leaking


def _has_reference(task: Task) -> bool:
    return any(turn.reference for turn in tool_task(task).turns)


def fault(tried: Tried, *, certain: bool = True) -> str:
    """Return what is wrong with the results of a reference; empty if nothing is.

    Verdicts are ignored unless they are ``certain``.
    """
    for number, turn in enumerate(tried.turns, start=1):
        if failed := next((each for each in turn.observed if each.failed), None):
            return f"turn {number} answers with an error: {failed.result}"
        if certain and isinstance(turn.verdict, Failed):
            return f"turn {number} {_failure(turn.verdict)}"
    return ""


def _failure(verdict: Failed) -> str:
    """Return why a reference fails beside itself: its second execution differs from the first."""
    if verdict.call:
        return f"calls {verdict.call.partition('(')[0]}, which {OTHER_ANSWERS}"
    if verdict.reason == STATE_MISMATCH:
        return f"makes calls that {OTHER_STATE}"
    if verdict.reason == UNCOMPARED:
        return f"ends in a state that is too large to compare; {DEFINE_STATE}"
    return f"fails: {verdict.reason}"


@lru_cache(maxsize=64)
def _warn(left_out: Sequence[tuple[str, str]]) -> None:
    """Log the tasks that are left out, and why; once in a process, which may read them often."""
    log.warning("tasks_left_out", count=len(left_out), reasons=_firsts(dict(left_out)))


def _firsts(left_out: Mapping[str, str]) -> dict[str, str]:
    """Return each reason once, for the first task that has it, by task."""
    first: dict[str, str] = {}
    for task_id, reason in left_out.items():
        first.setdefault(reason, task_id)
    return {task_id: reason for reason, task_id in first.items()}


def left_out_words(left_out: Mapping[str, str]) -> str:
    """Return which tasks are left out, with the reason for the first; empty for none."""
    for task_id, reason in left_out.items():
        if len(left_out) == 1:
            return f"1 task was left out, {task_id}: {reason}"
        named = named_tasks(left_out)
        return f"{len(left_out)} tasks were left out ({named}), the first one {task_id}: {reason}"
    return ""


def named_tasks(task_ids: Collection[str]) -> str:
    """Return the first ids, and how many more there are."""
    more = len(task_ids) - MAX_NAMED
    return ", ".join(islice(task_ids, MAX_NAMED)) + (f" and {more} more" if more > 0 else "")


def _too_few(settings: FixedSettings, left: str, given: int, left_out: str) -> str:
    """Return the error message if only ``left`` of ``given`` tasks remain."""
    if left_out:
        remedy = HOST_REMEDY if HOST_REACHED in left_out else "correct the tasks or the tools"
        return (
            f"environment.tasks: {left_out}; that leaves {left} of {given}, but at least 1 of each "
            f"is needed; {remedy}"
        )
    return (
        f"environment.held_out_share: {settings.held_out_share} leaves {left} of {given}, but at "
        "least 1 of each is needed; use a share nearer to 0.5, or another environment.split_seed"
    )


def _of_split(tasks: Sequence[Task], split: Split, seed: tuple[int, int]) -> tuple[Task, ...]:
    return shuffled([task for task in tasks if task.split == split], seed)
