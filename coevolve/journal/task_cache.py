"""The tasks that a part works with, read from the journal once each."""

from collections import OrderedDict
from typing import Generic, TypeVar

from coevolve.journal.codec import TASKS_BY_ID, decode
from protocols.errors import JournalError
from protocols.interfaces import Reader
from protocols.tasks import AnyTask

SHELF_SIZE = 4096

TaskT = TypeVar("TaskT", bound=AnyTask)


class TaskShelf(Generic[TaskT]):
    """The most recently used tasks of some kinds, by id."""

    def __init__(self, reader: Reader, *kinds: type[TaskT]) -> None:
        self._reader = reader
        self._kinds = kinds
        self._tasks: OrderedDict[str, TaskT] = OrderedDict()

    async def get(self, task_id: str) -> TaskT:
        """Return the task. Raises JournalError where the journal has none of this id and kind."""
        if task_id not in self._tasks:
            found = await self._reader.find(TASKS_BY_ID, task_id, limit=1)
            task = decode(found[0]) if found else None
            if not isinstance(task, self._kinds):
                kinds = " or ".join(kind.__name__ for kind in self._kinds)
                raise JournalError(
                    f"the journal holds no {kinds} {task_id!r}, although a request names it"
                )
            self._tasks[task_id] = task
            if len(self._tasks) > SHELF_SIZE:
                self._tasks.popitem(last=False)
        self._tasks.move_to_end(task_id)
        return self._tasks[task_id]
