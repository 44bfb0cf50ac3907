"""Keeps going what goes on beside a run and is no part of it: trackers, copies, the screen's look.

Nothing that such a thing raises ends the run, and nothing ends it for good: it begins again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import structlog

PAUSE_S = 1.0
LONGEST_PAUSE_S = 300.0
"""Pause before a failed thing begins again; it doubles each time, up to the longest."""

log = structlog.get_logger()


async def keep_going(
    name: str, begin: Callable[[], Awaitable[None]], pause_s: float = PAUSE_S
) -> None:
    """Await what ``begin`` returns until it ends without an error; log each error.

    ``name`` says in the log what failed. ``pause_s`` is the first pause, in seconds.
    """
    while True:
        try:
            return await begin()
        except Exception as error:  # noqa: BLE001 - nothing beside the run may end it
            log.warning("beside_the_run_failed", what=name, cause=_cause(error), again_s=pause_s)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _cause(error: BaseException) -> str:
    """Return what went wrong; of several errors at once, the first."""
    if isinstance(error, BaseExceptionGroup):
        return _cause(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return f"{type(error).__name__}: {error}"
