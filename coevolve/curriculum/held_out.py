"""The tasks that may never be trained on, under whatever name."""

from collections.abc import Sequence

from protocols.errors import LeakError
from protocols.journal import Message
from protocols.tasks import Task


class HeldOut:
    """Refuses to let held-out tasks be trained on."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        """Know those of ``tasks`` whose split is held out."""
        held_out = [task for task in tasks if task.split == "held_out"]
        self._ids = {task.task_id for task in held_out}
        self._bodies = {bytes(task.body): task.task_id for task in held_out}

    def refuse(self, messages: Sequence[Message]) -> None:
        """Raise LeakError where one of ``messages`` would let such a task be trained on."""
        for task in messages:
            if isinstance(task, Task) and (found := self._found(task)):
                raise LeakError(
                    f"task {task.task_id!r}: training needs tasks of the split train, found "
                    f"{found}; the environment's sampler() may draw no other"
                )

    def _found(self, task: Task) -> str:
        if task.split != "train":
            return f"one of the split {task.split}"
        if task.task_id in self._ids:
            return "the id of a held-out task"
        same = self._bodies.get(bytes(task.body))
        return f"what the held-out task {same!r} asks for" if same else ""
