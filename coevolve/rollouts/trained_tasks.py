"""The tasks that a run has trained on, of which an evaluation attempts a few."""

from collections.abc import Iterator
from hashlib import blake2b

from coevolve.journal.codec import decode_as, topic_of
from coevolve.journal.paging import newest
from coevolve.journal.task_cache import TaskCache, unread
from protocols.interfaces import Reader
from protocols.journal import StoredRecord
from protocols.learning import StepReport
from protocols.tasks import NEW_TASKS, Task

STEPS = 256
"""Number of steps whose tasks count: what was trained on longer ago may be forgotten."""


def trained_on(report: StepReport) -> Iterator[str]:
    """Yield the ids of the tasks from which a step learned."""
    return (group.task_id for group in report.groups if group.use != "nothing")


class TrainedTasks:
    """Draws tasks that the run has trained on."""

    def __init__(self, reader: Reader, seed: int) -> None:
        self._reader = reader
        self._seed = seed
        self._tasks = TaskCache(reader, unread)

    async def drawn(self, count: int, version: int) -> list[Task]:
        """Return ``count`` random tasks of the newest `STEPS` steps up to ``version``, or all.

        Equal arguments draw equal tasks. Each task keeps its place in the draw, so that draws for
        consecutive versions share most of their tasks.
        """

        def is_wanted(record: StoredRecord) -> bool:
            return decode_as(record, StepReport).step <= version

        records = await newest(self._reader, topic_of(StepReport), STEPS, is_wanted)
        reports = [decode_as(record, StepReport) for record in records]
        ids = {task_id for report in reports for task_id in trained_on(report)}
        drawn: list[Task] = []
        for task_id in sorted(ids, key=self._place):
            if len(drawn) == count:
                break
            task = await self._tasks.get(task_id)
            if isinstance(task.origin, NEW_TASKS):
                drawn.append(task)
        return drawn

    def _place(self, task_id: str) -> bytes:
        return blake2b(f"{self._seed}/{task_id}".encode(), digest_size=8).digest()
