"""Keeps held-out tasks out of training, under any id."""

from collections.abc import Sequence

from protocols.errors import LeakError
from protocols.journal import Message
from protocols.tasks import Task


class HeldOut:
    """Refuses to train on held-out tasks."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        """Use the tasks in ``tasks`` whose split is held out."""
        held_out = [task for task in tasks if task.split == "held_out"]
        self._ids = {task.task_id for task in held_out}
        self._bodies = {bytes(task.body): task.task_id for task in held_out}

    def refuse(self, messages: Sequence[Message]) -> None:
        """Raise LeakError if one of ``messages`` would let a held-out task be trained on."""
        for task in messages:
            if isinstance(task, Task) and (found := self._leak(task)):
                raise LeakError(
                    f"task {task.task_id!r}: training needs tasks of the split train, found "
                    f"{found}; the environment's sampler() must not draw others"
                )

    def _leak(self, task: Task) -> str:
        if task.split != "train":
            return f"one of the split {task.split}"
        if task.task_id in self._ids:
            return "the id of a held-out task"
        same = self._bodies.get(bytes(task.body))
        return f"the content of the held-out task {same!r}" if same else ""
