"""Finds what the journal has about single tasks and signals, through its index.

The answers are those of a `LineageIndex` of all records, while the work depends on the records
about these tasks and signals alone, and on one snapshot. Ask it only about what was added to it.
"""

from typing import TypeVar

import msgspec

from coevolve.history.group_totals import DroppedGroups, TaskGroups, dropped_groups
from coevolve.history.lineage import LineageIndex
from coevolve.journal.codec import (
    CANDIDATES_BY_ID,
    CANDIDATES_BY_SIGNAL,
    EXPLORATIONS_BY_ID,
    EXPLORATIONS_BY_SIGNAL,
    PROBES_BY_CANDIDATE,
    SETTLED_BY_SIGNAL,
    SIGNALS_BY_ID,
    SIGNALS_BY_TASK,
    STEPS_BY_TASK,
    SUMMARIES_BY_TASK,
    TASKS_BY_ID,
    TASKS_BY_ROOT,
    TASKS_BY_SIGNAL,
    VERDICTS_BY_CANDIDATE,
    decode,
    decode_as,
)
from protocols.evolution import Candidate, GroupSummary, OnTask, Signal
from protocols.interfaces import Reader
from protocols.journal import StoredRecord
from protocols.tasks import NEW_TASKS, Synthesized, Task

MOST = 10_000_000
"""Maximum number of records of one key; far above any real number."""

Kind = TypeVar("Kind", bound=msgspec.Struct)


class Related:
    """The records about some tasks and signals; each is read once."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._records: dict[int, StoredRecord] = {}
        self._found: dict[tuple[str, str], list[int]] = {}
        self._tasks: set[str] = set()
        self._signals: set[str] = set()
        self._dropped: DroppedGroups | None = None
        self._dropped_of: dict[str, TaskGroups] = {}
        """Task id -> its groups that were dropped, for tasks whose groups were read."""

    def index(self) -> LineageIndex:
        """Return the lineage of the records that were found."""
        evolution = LineageIndex(dropped=self._dropped_of)
        for _, record in sorted(self._records.items()):
            evolution.fold(decode(record), record.time_ns)
        return evolution

    async def add_lineage(self, task_id: str) -> bool:
        """Find all records for `LineageIndex.lineage`; return whether there is such a task."""
        if not await self.add_task(task_id):
            return False
        for task in await self._all(TASKS_BY_ID, task_id, Task):
            if isinstance(task.origin, Synthesized):
                await self.add_signal(task.origin.signal_id)
                await self._add_candidate(task.origin.candidate_id)
        for signal in await self._all(SIGNALS_BY_TASK, task_id, Signal):
            await self.add_signal(signal.signal_id)
        return True

    async def add_task(self, task_id: str) -> bool:
        """Find all records for `LineageIndex.history`, and the signal that the task came from.

        Return whether there is such a task; only a task that is drawn counts.
        """
        tasks = await self._all(TASKS_BY_ID, task_id, Task)
        if not tasks or not isinstance(tasks[0].origin, NEW_TASKS):
            return False
        if task_id not in self._tasks:
            self._tasks.add(task_id)
            for task in tasks:
                if isinstance(task.origin, Synthesized):
                    await self._find(VERDICTS_BY_CANDIDATE, task.origin.candidate_id)
                    await self._find(SIGNALS_BY_ID, task.origin.signal_id)
            await self._find_groups(task_id)
            following = await self._all(TASKS_BY_ROOT, task_id, Task)
            for each in {task_id, *(task.task_id for task in following)}:
                await self._find(STEPS_BY_TASK, each)
        return True

    async def add_signal(self, signal_id: str) -> None:
        """Find all records for `LineageIndex.signal_history`, and the task that it is about."""
        if signal_id in self._signals:
            return
        self._signals.add(signal_id)
        await self._find(SETTLED_BY_SIGNAL, signal_id)
        await self._find(EXPLORATIONS_BY_SIGNAL, signal_id)
        for candidate in await self._all(CANDIDATES_BY_SIGNAL, signal_id, Candidate):
            await self._find(VERDICTS_BY_CANDIDATE, candidate.candidate_id)
        for task in await self._all(TASKS_BY_SIGNAL, signal_id, Task):
            await self.add_task(task.task_id)
        for signal in await self._all(SIGNALS_BY_ID, signal_id, Signal):
            if isinstance(signal.about, OnTask):
                await self._find(TASKS_BY_ID, signal.about.task_id)
                await self._find_groups(signal.about.task_id)

    async def _add_candidate(self, candidate_id: str) -> None:
        await self._find(VERDICTS_BY_CANDIDATE, candidate_id)
        await self._find(PROBES_BY_CANDIDATE, candidate_id)
        for candidate in await self._all(CANDIDATES_BY_ID, candidate_id, Candidate):
            await self._find(EXPLORATIONS_BY_ID, candidate.exploration_id)

    async def _find_groups(self, task_id: str) -> None:
        """Read the summaries of a task's groups, and count those that were dropped."""
        if task_id in self._dropped_of:
            return
        if self._dropped is None:
            self._dropped = await dropped_groups(self._reader)
        await self._find(SUMMARIES_BY_TASK, task_id)
        for sequence in self._found[SUMMARIES_BY_TASK, task_id]:
            self._dropped.found(sequence, decode_as(self._records[sequence], GroupSummary))
        self._dropped_of[task_id] = self._dropped.tasks.get(task_id) or TaskGroups()

    async def _all(self, index: str, key: str, kind: type[Kind]) -> list[Kind]:
        """Return the messages under an index key, oldest first."""
        await self._find(index, key)
        return [decode_as(self._records[each], kind) for each in self._found[index, key]]

    async def _find(self, index: str, key: str) -> None:
        """Read the records under an index key, unless it was done before."""
        if (index, key) not in self._found:
            records = await self._reader.find(index, key, limit=MOST)
            self._records.update((record.sequence, record) for record in records)
            self._found[index, key] = [record.sequence for record in records]
