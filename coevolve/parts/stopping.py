"""Cancels a waiting part as soon as it should stop, so that a clean stop is immediate."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


async def unless_stopped(
    stopping: asyncio.Event, work: Coroutine[Any, Any, Result]
) -> Result | None:
    """Return the result of ``work``, or cancel it and return None once ``stopping`` is set."""
    working = asyncio.create_task(work)
    stopped = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        stopped.cancel()
        await asyncio.gather(working, stopped, return_exceptions=True)
