"""The tasks that a part works with, read from the journal once each."""

from collections import OrderedDict

from coevolve.journal.codec import TASKS_BY_ID, decode_as
from protocols.errors import JournalError
from protocols.interfaces import Reader
from protocols.tasks import Task

SHELF_SIZE = 4096


class TaskShelf:
    """The most recently used tasks, by id."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._tasks: OrderedDict[str, Task] = OrderedDict()

    async def get(self, task_id: str) -> Task:
        """Return the task. Raises JournalError where the journal has none of this id."""
        if task_id not in self._tasks:
            found = await self._reader.find(TASKS_BY_ID, task_id, limit=1)
            if not found:
                raise JournalError(
                    f"the journal holds no task {task_id!r}, although a request names it"
                )
            self._tasks[task_id] = decode_as(found[0], Task)
            if len(self._tasks) > SHELF_SIZE:
                self._tasks.popitem(last=False)
        self._tasks.move_to_end(task_id)
        return self._tasks[task_id]
