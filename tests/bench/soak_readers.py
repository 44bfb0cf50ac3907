"""What the launcher and `attach` read of a week's journal, for `tests.bench.soak`."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from coevolve.history.costs import Costs, costs_snapshots
from coevolve.history.evolution_totals import evolution_snapshots
from coevolve.history.group_totals import GroupTotals, group_snapshots
from coevolve.history.progress import Progress, progress_snapshots
from coevolve.history.related import Related
from coevolve.journal.codec import decode_as, topic_of
from coevolve.journal.paging import newest
from coevolve.journal.snapshots import Snapshots
from coevolve.llm.call_totals import call_snapshots
from protocols.config import RunConfig
from protocols.evolution import Signal
from protocols.interfaces import Reader
from protocols.learning import StepReport
from protocols.tasks import Task
from tests.evolving import whole_fold

POOL = 64
"""Live tasks that the loop made, and as many retired ones."""

SEEDS = 150
CONFIG = msgspec.convert(
    {
        "name": "soak",
        "environment": {"seeds": SEEDS},
        "pool": {"capacity": POOL, "retired_capacity": POOL},
    },
    RunConfig,
)
SHOWN = 20
"""Signals and tasks that `attach` shows without options."""


def _progress(reader: Reader) -> Snapshots[Progress]:
    return progress_snapshots(reader, {})


def _costs(reader: Reader) -> Snapshots[Costs]:
    return costs_snapshots(reader, CONFIG.remembered_tasks)


def _groups(reader: Reader) -> Snapshots[GroupTotals]:
    return group_snapshots(reader, CONFIG.remembered_tasks)


LAUNCHER: dict[str, Callable[[Reader], Snapshots[Any]]] = {
    "progress": _progress,
    "totals": evolution_snapshots,
    "costs": _costs,
    "groups": _groups,
    "calls": call_snapshots,
}


async def _status(reader: Reader) -> object:
    return await _progress(reader).folded(), await evolution_snapshots(reader).folded()


async def _signals(reader: Reader) -> object:
    totals, related = await evolution_snapshots(reader).folded(), Related(reader)
    for record in await newest(reader, topic_of(Signal), SHOWN):
        await related.add_signal(decode_as(record, Signal).signal_id)
    return totals, related.index()


async def _tasks(reader: Reader) -> object:
    """Read what `attach tasks` does; its snapshot of the curriculum is measured apart."""
    totals, related = await evolution_snapshots(reader).folded(), Related(reader)
    for record in await newest(reader, topic_of(Task), SHOWN):
        await related.add_task(decode_as(record, Task).task_id)
    return totals, related.index()


async def _lineage(reader: Reader) -> object:
    """Read the lineage of the newest task that the loop made."""
    [record] = await newest(reader, topic_of(Task), 1)
    task_id, related = decode_as(record, Task).task_id, Related(reader)
    assert await related.add_lineage(task_id)
    return related.index().lineage(task_id)


async def _seed_lineage(reader: Reader) -> object:
    """Read the lineage of a seed task, about which there are many signals."""
    related = Related(reader)
    assert await related.add_lineage("seed-1")
    return related.index().lineage("seed-1")


async def _tail(reader: Reader) -> object:
    return await newest(reader, topic_of(StepReport), 10)


READERS: dict[str, Callable[[Reader], Awaitable[object]]] = {
    "attach status": _status,
    "attach signals": _signals,
    "attach tasks": _tasks,
    "attach lineage m": _lineage,
    "attach lineage s": _seed_lineage,
    "attach tail": _tail,
    "report's lineages": whole_fold,
}
