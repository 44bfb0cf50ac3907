"""Scores an author on tasks with several attempts at each, as a run's policy attempts them.

The author is a policy in this process, or a model behind an endpoint. Attempts sample at
``rollout.temperature``; pass@1 is the share of attempts that succeed, and pass@k the share of tasks
that one of k attempts solves.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from coevolve.history.score import Score, score_of
from coevolve.rollouts.agent import Agent, Episode
from protocols import columns
from protocols.config import RolloutConfig
from protocols.errors import CoevolveError, GeneratorError, SimulatorError, first_error
from protocols.tasks import Task

Say = Callable[[str], None]
"""Shows one line to the user."""

TOLD_S = 15.0
"""Seconds between two lines about the progress."""

Which = Literal["all", "held_out", "train"]

READS = "a message that cannot be read"
CALLS = "more calls than rollout.max_calls_per_turn"
MESSAGE = "a message longer than rollout.max_call_tokens"
LONG = "a conversation longer than rollout.max_tokens"
CONVERSATIONS = "more conversations than rollout.max_conversations"
SILENT = "ended a turn without a call"
REFUSED = "a call that the tools refused"
OTHER = "calls that lead to another state or answer than the reference"


@dataclass(frozen=True, kw_only=True)
class Author:
    """Who attempts tasks."""

    name: str
    agent: Agent
    decode: Callable[[Sequence[int]], str]
    """Returns the text of tokens, special ones included."""


class Attempted(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at a task."""

    task_id: str
    attempt: int
    split: str
    tools: tuple[str, ...]
    """The tools of the task's reference, each once."""

    succeeded: bool
    reason: str
    """Why it failed; empty if it succeeded."""

    tokens: int
    """Of the whole conversation."""

    sampled: int
    """Those of them that the author wrote."""

    text: str
    """The conversation, as the author read and wrote it."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The attempts at the tasks of one kind."""

    label: str
    tasks: int
    pass_1: Score
    pass_k: float
    """Share of the tasks that one of the attempts solved."""


class Attempts(msgspec.Struct, frozen=True, kw_only=True):
    """How an author did."""

    author: str
    attempts: int
    """Attempts at each task (k)."""

    rows: tuple[Row, ...]
    """All tasks first, then those that use each tool."""

    failures: Mapping[str, int]
    """Failed attempts by reason, the most frequent first."""

    wall_s: float
    members: tuple[Attempted, ...]

    @property
    def total(self) -> Row:
        """The row of all tasks."""
        return self.rows[0]


def sample_of(tasks: Sequence[Task], most: int, tools: Callable[[Task], tuple[str, ...]]):
    """Return at most ``most`` tasks, those of each set of tools in turn."""
    kinds: dict[tuple[str, ...], list[Task]] = {}
    for task in tasks:
        kinds.setdefault(tools(task), []).append(task)
    ranked = [(place, task) for group in kinds.values() for place, task in enumerate(group)]
    return tuple(task for _, task in sorted(ranked, key=lambda each: each[0])[:most])


async def attempts_of(
    author: Author,
    tasks: Sequence[Task],
    tools: Callable[[Task], tuple[str, ...]],
    limits: RolloutConfig,
    *,
    attempts: int,
    concurrent: int,
    say: Say,
) -> Attempts:
    """Return ``attempts`` attempts at each task, at most ``concurrent`` at a time.

    Raises SimulatorError, GeneratorError and EndpointError if one cannot be made.
    """
    gate, began = asyncio.Semaphore(concurrent), time.monotonic()
    made: list[Attempted] = []
    told = began
    failed: BaseExceptionGroup[CoevolveError] | None = None

    async def attempt(task: Task, number: int) -> None:
        nonlocal told
        async with gate:
            episode = await _tried(author.agent, task, number, limits.tries)
        made.append(_attempted(author, task, number, tools(task), episode, limits))
        if time.monotonic() - told > TOLD_S:
            told = time.monotonic()
            passed = sum(each.succeeded for each in made)
            say(f"{len(made)} of {len(tasks) * attempts} attempts, {passed} succeeded")

    try:
        async with asyncio.TaskGroup() as group:
            for task in tasks:
                for number in range(attempts):
                    group.create_task(attempt(task, number))
    except* CoevolveError as found:
        failed = found
    if failed is not None:
        raise first_error(failed)
    made.sort(key=lambda each: (each.task_id, each.attempt))
    return Attempts(
        author=author.name,
        attempts=attempts,
        rows=tuple(_rows(made)),
        failures=_failures(made),
        wall_s=time.monotonic() - began,
        members=tuple(made),
    )


async def _tried(agent: Agent, task: Task, number: int, tries: int) -> Episode:
    """Return an attempt; repeat it when the machine failed. Raises the last error."""
    for again in range(tries - 1):
        try:
            return await agent.attempt(task, f"{task.task_id}-{number}-{again}", seed=number)
        except (SimulatorError, GeneratorError):
            continue
    return await agent.attempt(task, f"{task.task_id}-{number}", seed=number)


def _attempted(
    author: Author,
    task: Task,
    number: int,
    tools: tuple[str, ...],
    episode: Episode,
    limits: RolloutConfig,
) -> Attempted:
    return Attempted(
        task_id=task.task_id,
        attempt=number + 1,
        split=task.split,
        tools=tools,
        succeeded=episode.succeeded,
        reason="" if episode.succeeded else reason_of(episode, limits),
        tokens=sum(each.count for each in episode.conversations),
        sampled=sum(each.sampled for each in episode.conversations),
        text="\n\n".join(
            author.decode(columns.from_int32(each.token_ids)) for each in episode.conversations
        ),
    )


def reason_of(episode: Episode, limits: RolloutConfig) -> str:
    """Return why an attempt failed."""
    match episode.ended:
        case "malformed":
            return READS
        case "too_many_calls":
            return CALLS
        case "too_long":
            last = bytes(episode.tokens.mask)
            said = len(last) - len(last.rstrip(b"\x01"))
            return MESSAGE if said >= limits.max_call_tokens else LONG
        case "too_many_conversations":
            return CONVERSATIONS
        case "wrong" | "finished" | "program_stopped":
            made = [each for each in episode.actions if each.turn == episode.turns_passed]
            if not made:
                return SILENT
            return REFUSED if made[-1].failed else OTHER


def _failures(made: Sequence[Attempted]) -> dict[str, int]:
    reasons = [each.reason for each in made if not each.succeeded]
    counts = {reason: reasons.count(reason) for reason in dict.fromkeys(reasons)}
    return dict(sorted(counts.items(), key=lambda each: -each[1]))


def _rows(made: Sequence[Attempted]) -> Iterable[Row]:
    yield _row("all", made)
    for tool in sorted({tool for each in made for tool in each.tools}):
        yield _row(tool, [each for each in made if tool in each.tools])


def _row(label: str, made: Sequence[Attempted]) -> Row:
    solved = {each.task_id for each in made if each.succeeded}
    tasks = {each.task_id for each in made}
    return Row(
        label=label,
        tasks=len(tasks),
        pass_1=score_of((each.task_id, float(each.succeeded)) for each in made),
        pass_k=len(solved) / len(tasks),
    )
