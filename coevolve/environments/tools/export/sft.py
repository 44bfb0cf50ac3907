"""Solutions for supervised fine-tuning, one JSON object per line.

A row has `messages`, `tools` (JSON), `task_id` and `solution`: ``rollout`` for a successful
conversation of the policy, each different one once, and ``reference`` for the validated solution of
a task. References without recorded tool answers are left out.
"""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import msgspec

from coevolve.environments.tools.export.conversation import ChatMessage, chat, reference
from coevolve.environments.tools.export.decoding import transcriber_of
from coevolve.environments.tools.export.tools import tools_json
from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.export.source import Source
from coevolve.journal.lookups import all_of
from coevolve.journal.task_cache import TaskCache
from protocols.rollouts import Rollout
from protocols.tasks import attempted


class Solution(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the file."""

    messages: tuple[ChatMessage, ...]
    tools: str
    task_id: str
    solution: Literal["reference", "rollout"]


async def write(source: Source, path: Path) -> str:
    """Write the table to ``path`` and return a description of it."""
    counts = {"reference": 0, "rollout": 0}
    with path.open("wb") as file:
        async for solution in _solutions(source):
            file.write(msgspec.json.encode(solution) + b"\n")
            counts[solution.solution] += 1
    left_out = len(source.tasks) - counts["reference"]
    return (
        f"{counts['reference']} references and {counts['rollout']} rollouts"
        f"{f'; {left_out} references have no recorded results' if left_out else ''}"
    )


async def _solutions(source: Source) -> AsyncIterator[Solution]:
    tasks = {task_id: tool_task(task) for task_id, task in source.tasks.items()}
    seen = set[tuple[str, bytes]]()
    for task_id, body in tasks.items():
        if all(len(turn.results) == len(turn.reference) for turn in body.turns):
            yield _solution(task_id, body, reference(body), "reference")
    transcriber = transcriber_of(source.config)
    played = TaskCache(source.reader, tool_task)
    async for rollout in all_of(source.reader, Rollout):
        if not rollout.succeeded or rollout.task_id not in tasks:
            continue
        body = await played.get(attempted(rollout.task_id, rollout.instance))
        messages = chat(body, tuple(transcriber.said(rollout)))
        key = (rollout.task_id, hashlib.sha256(msgspec.json.encode(messages)).digest())
        if key not in seen:
            seen.add(key)
            yield _solution(rollout.task_id, body, messages, "rollout")


def _solution(
    task_id: str,
    body: ToolTask,
    messages: tuple[ChatMessage, ...],
    solution: Literal["reference", "rollout"],
) -> Solution:
    return Solution(messages=messages, tools=tools_json(body), task_id=task_id, solution=solution)
