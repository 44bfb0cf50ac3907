"""A cache of the tasks that a part works with, read from the journal."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from coevolve.journal.codec import TASKS_BY_ID, decode_as
from protocols.errors import JournalError
from protocols.interfaces import Reader
from protocols.tasks import Task

CACHE_SIZE = 4096

TaskT = TypeVar("TaskT")


class TaskCache(Generic[TaskT]):
    """The most recently used tasks by id, in the form that ``read`` returns."""

    def __init__(self, reader: Reader, read: Callable[[Task], TaskT]) -> None:
        """Cache the result of ``read`` for each task."""
        self._reader = reader
        self._read = read
        self._tasks: OrderedDict[str, TaskT] = OrderedDict()

    async def get(self, task_id: str) -> TaskT:
        """Return the task. Raises JournalError if the journal has no task of this id."""
        if task_id not in self._tasks:
            found = await self._reader.find(TASKS_BY_ID, task_id, limit=1)
            if not found:
                raise JournalError(
                    f"the journal holds no task {task_id!r}, although a record refers to it"
                )
            self._tasks[task_id] = self._read(decode_as(found[0], Task))
            if len(self._tasks) > CACHE_SIZE:
                self._tasks.popitem(last=False)
        self._tasks.move_to_end(task_id)
        return self._tasks[task_id]


def unread(task: Task) -> Task:
    """Return the task unchanged, as the journal has it."""
    return task
