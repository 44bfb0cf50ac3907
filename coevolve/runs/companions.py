"""Begins trackers, copies and other things beside a run again when they fail.

They are no part of the run: nothing that they raise ends it, and nothing ends them for good.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from coevolve.parts.attempts import reason_of

PAUSE_S = 1.0
LONGEST_PAUSE_S = 300.0
"""Pause before a failed thing begins again; it doubles each time, up to the longest."""

log = structlog.get_logger()


async def restart_on_failure(
    name: str, begin: Callable[[], Awaitable[None]], pause_s: float = PAUSE_S
) -> None:
    """Await what ``begin`` returns until it ends without an error; log each error.

    ``name`` says in the log what failed. ``pause_s`` is the first pause, in seconds.
    """
    while True:
        try:
            return await begin()
        except Exception as error:  # noqa: BLE001 - nothing beside the run may end it
            log.warning("beside_the_run_failed", what=name, cause=reason_of(error), again_s=pause_s)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
