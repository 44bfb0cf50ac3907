"""Makes instances of many tasks at the same time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from protocols.tasks import Task


async def instances_of(
    tasks: Sequence[Task], make: Callable[[Task], Awaitable[Task | None]]
) -> dict[str, Task]:
    """Return an instance of each task by the task's id, without tasks for which ``make`` has none.

    Raises what ``make`` raises.
    """
    made = await asyncio.gather(*map(make, tasks))
    pairs = zip(tasks, made, strict=True)
    return {task.task_id: instance for task, instance in pairs if instance is not None}
