"""Gathers the history of a run from its journal, and keeps it up to date."""

import sys
from collections.abc import Callable
from dataclasses import replace

import msgspec

from coevolve.history.costs import costs_snapshots
from coevolve.history.evolution_totals import evolution_snapshots
from coevolve.history.group_totals import DroppedGroups, dropped_groups
from coevolve.history.lineage import LineageIndex
from coevolve.history.progress import progress_snapshots
from coevolve.history.run_history import TOPICS, Described, RunHistory, nothing_yet
from coevolve.journal.codec import decode
from coevolve.journal.fold import fold, fold_records
from protocols.config import RunConfig
from protocols.evolution import GroupSummary
from protocols.interfaces import Reader
from protocols.journal import Message, StoredRecord


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
        self._totals: list[_Total] = []

    @classmethod
    async def begin(cls, reader: Reader, config: RunConfig, environment: Described) -> "Gathering":
        """Return the data of a run, of which only snapshots were read."""
        dropped = await dropped_groups(reader)
        progress = progress_snapshots(reader, environment.labels())
        totals, costs = evolution_snapshots(reader), costs_snapshots(reader)
        gone, gone_through = await progress.restore()
        known, known_through = await totals.restore()
        spent, spent_through = await costs.restore()
        data = replace(
            nothing_yet(config, environment),
            progress=gone,
            evolution=LineageIndex(dropped=dropped.tasks),
            totals=known,
            costs=spent,
        )
        found = cls(reader, data, dropped)
        found._totals = [
            _Total(progress.topics, gone.fold, gone_through),
            _Total(totals.topics, known.fold, known_through),
            _Total(costs.topics, spent.fold, spent_through),
        ]
        return found

    async def newest(self) -> RunHistory:
        """Return the data up to the newest record; it changes with the next call."""
        for total in self._totals:
            await total.catch_up(self._reader)
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


class _Total:
    """A fold with topics of its own, and how far it goes."""

    def __init__(
        self, topics: tuple[str, ...], into: Callable[[Message], None], through: int
    ) -> None:
        self._topics = topics
        self._into = into
        self._through = through

    async def catch_up(self, reader: Reader) -> None:
        """Fold the records since."""
        self._through = await fold(reader, self._topics, self._into, self._through)
