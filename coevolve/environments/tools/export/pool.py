"""The pool as a table: every training task as a chat, with its lineage and its state.

Columns: `task_id`, `messages`, `tools` (JSON), `status` (live, retired or waiting), `weight`
(of live synthesized tasks, null for the others), `origin` (seed or synthesized), `source`,
`skills` (one per turn, if the source provides them),
`signal_id`, `signal_kind`, `candidate_id`, `exploration_id`, `synthesizer`, `label`,
`probe_successes`, `probe_rollouts`, `visits` (groups of rollouts), `successes`, `rollouts`,
`trained_steps`, and `task` (JSON: the world and the reference calls, as this project's simulators
read them).

A reference without recorded results has no tool messages.
"""

# pyarrow is partly untyped.
# pyright: reportUnknownMemberType=false

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from coevolve.curriculum.state import curriculum_snapshots
from coevolve.curriculum.task_sampler import Pooled
from coevolve.environments.tools.cells import tools_by_turn
from coevolve.environments.tools.export.columns import MESSAGES
from coevolve.environments.tools.export.conversation import reference
from coevolve.environments.tools.export.tools import tools_json
from coevolve.environments.tools.task import tool_task
from coevolve.export.parquet import writing
from coevolve.export.source import Source
from coevolve.history.histories import Lineage
from protocols.evolution import Admitted
from protocols.tasks import Seeded, Synthesized, Task

COLUMNS: dict[str, Any] = {
    "task_id": pa.string(),
    "messages": MESSAGES,
    "tools": pa.string(),
    "status": pa.string(),
    "weight": pa.float64(),
    "origin": pa.string(),
    "source": pa.string(),
    "skills": pa.list_(pa.string()),
    "signal_id": pa.string(),
    "signal_kind": pa.string(),
    "candidate_id": pa.string(),
    "exploration_id": pa.string(),
    "synthesizer": pa.string(),
    "label": pa.string(),
    "probe_successes": pa.int32(),
    "probe_rollouts": pa.int32(),
    "visits": pa.int32(),
    "successes": pa.int32(),
    "rollouts": pa.int32(),
    "trained_steps": pa.int32(),
    "task": pa.string(),
}


async def write(source: Source, path: Path) -> str:
    """Write the table to ``path`` and return a description of it."""
    lives, weights = await _drawn(source)
    with writing(path, COLUMNS) as table:
        for task_id, task in source.tasks.items():
            lineage = source.history.evolution.lineage(task_id)
            state = {"status": lives.get(task_id, "waiting"), "weight": weights.get(task_id)}
            table.add(_task(task) | state | _lineage(lineage) | _visits(lineage))
    return f"{table.count} tasks"


async def _drawn(source: Source) -> tuple[dict[str, str], dict[str, float]]:
    """Return the status of tasks, and the weights of those that are drawn by weight."""
    snapshots = curriculum_snapshots(source.reader, source.config, source.open_sampler)
    state, _ = await snapshots.folded()
    if not isinstance(state.sampler, Pooled):
        return dict.fromkeys(source.tasks, "live"), {}
    pool = state.sampler.pool
    lives = dict.fromkeys(pool.live, "live") | dict.fromkeys(pool.retired, "retired")
    return lives, pool.weights()


def _task(task: Task) -> dict[str, Any]:
    body = tool_task(task)
    return {
        "task_id": task.task_id,
        "messages": msgspec.to_builtins(reference(body)),
        "tools": tools_json(body),
        "skills": tools_by_turn(body),
        "task": msgspec.json.encode(body).decode(),
    }


def _lineage(lineage: Lineage) -> dict[str, Any]:
    history = lineage.history
    origin = history.task.origin
    if isinstance(origin, Seeded):
        return {"origin": "seed", "source": origin.source}
    assert isinstance(origin, Synthesized)  # a task with tools never continues a rollout
    verdict = history.verdict
    admitted = verdict.outcome if verdict and isinstance(verdict.outcome, Admitted) else None
    return {
        "origin": "synthesized",
        "signal_id": origin.signal_id,
        "signal_kind": lineage.signal.signal.kind if lineage.signal else None,
        "candidate_id": origin.candidate_id,
        "exploration_id": lineage.exploration.exploration_id if lineage.exploration else None,
        "source": lineage.exploration.start if lineage.exploration else None,
        "synthesizer": history.synthesizer,
        "label": admitted.label if admitted else None,
        "probe_successes": admitted.probe_successes if admitted else None,
        "probe_rollouts": admitted.probe_rollouts if admitted else None,
    }


def _visits(lineage: Lineage) -> dict[str, int]:
    groups = lineage.history.groups
    return {
        "visits": groups.groups,
        "successes": groups.successes,
        "rollouts": groups.rollouts,
        "trained_steps": len(lineage.history.trained),
    }
