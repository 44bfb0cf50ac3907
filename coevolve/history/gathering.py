"""Gathers the history of a run from its journal, and keeps it up to date."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from coevolve.history.costs import costs_snapshots
from coevolve.history.evolution_totals import evolution_snapshots
from coevolve.history.group_totals import DroppedGroups, dropped_groups
from coevolve.history.lineage import LineageIndex
from coevolve.history.progress import progress_snapshots
from coevolve.history.run_history import TOPICS, Described, RunHistory, nothing_yet
from coevolve.journal.codec import decode
from coevolve.journal.fold import fold_records
from coevolve.journal.snapshots import Followed
from protocols.config import RunConfig
from protocols.evolution import GroupSummary
from protocols.interfaces import Reader
from protocols.journal import StoredRecord


async def gather(
    reader: Reader,
    config: RunConfig,
    environment: Described,
) -> RunHistory:
    """Return the data of all records in the journal so far. The run may still be going on.

    Records that the journal dropped count in the progress, the totals, the costs, and the groups of
    each task.
    """
    return await (await Gathering.begin(reader, config, environment)).newest()


class Gathering:
    """The data of one run; each record is read once, however often the data is asked for."""

    def __init__(self, reader: Reader, data: RunHistory, dropped: DroppedGroups) -> None:
        """Begin with ``data`` that no record was folded into; use `begin`."""
        self._reader = reader
        self._data = data
        self._dropped = dropped
        self._through = 0
        self._totals: Sequence[Followed[Any]] = ()

    @classmethod
    async def begin(cls, reader: Reader, config: RunConfig, environment: Described) -> "Gathering":
        """Return the data of a run, of which the totals were read."""
        dropped = await dropped_groups(reader)
        progress = Followed(progress_snapshots(reader, environment.labels()))
        totals, costs = Followed(evolution_snapshots(reader)), Followed(costs_snapshots(reader))
        data = replace(
            nothing_yet(config, environment),
            progress=await progress.follow(),
            evolution=LineageIndex(dropped=dropped.tasks),
            totals=await totals.follow(),
            costs=await costs.follow(),
        )
        found = cls(reader, data, dropped)
        found._totals = progress, totals, costs
        return found

    async def newest(self) -> RunHistory:
        """Return the data up to the newest record; it changes with the next call."""
        for total in self._totals:
            await total.follow()
        self._through = await fold_records(self._reader, TOPICS, self._fold, self._through)
        return self._data

    def _fold(self, record: StoredRecord) -> None:
        message = decode(record)
        if isinstance(message, GroupSummary):
            self._dropped.found(record.sequence, message)
            message = _lean(message)
        self._data.fold(message, record.time_ns)


def _lean(summary: GroupSummary) -> GroupSummary:
    """Return the summary in half the memory: without what no report shows, and each id once."""
    return msgspec.structs.replace(
        summary,
        task_id=sys.intern(summary.task_id),
        root=sys.intern(summary.root),
        evidence=(),
    )
