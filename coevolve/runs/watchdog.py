"""Reports a run without progress, with what each part waits for, so that no hang is silent.

A run in which every rollout fails writes records without end, and makes no progress either.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from coevolve.history.passing import PROGRESS
from coevolve.parts.pausing import is_paused
from protocols.control import PartStatus, Stalled
from protocols.errors import JournalError
from protocols.interfaces import Store, SupervisedPart

ANSWER_S = 15.0

LOOKS = 4
"""Journal checks per ``quiet_s``: the alarm comes late by at most a quarter of ``quiet_s``."""


async def watch(
    parts: Callable[[], Sequence[SupervisedPart]],
    store: Store,
    quiet_s: float,
    alarm: Callable[[Stalled], Awaitable[None]],
) -> None:
    """Call ``alarm`` whenever the journal got no record of `PROGRESS` for ``quiet_s`` seconds.

    It never returns, and repeats the alarm after as many seconds without progress again.

    ``parts`` returns the parts of that moment. The seconds of a pause do not count. If the store
    does not answer, the report says so; that raises no error.
    """
    newest = 0
    quiet_since = told = time.monotonic()
    while True:
        await asyncio.sleep(quiet_s / LOOKS)
        seen = await _look(store)
        if seen is not None and (seen.newest > newest or seen.paused):
            newest = seen.newest
            quiet_since = told = time.monotonic()
        elif time.monotonic() - told >= quiet_s:
            told = time.monotonic()
            statuses = await asyncio.gather(*(part.status() for part in parts()))
            await alarm(
                Stalled(
                    quiet_s=time.monotonic() - quiet_since,
                    waiting=tuple(sentence(status) for status in statuses)
                    + (("store does not answer",) if seen is None else ()),
                )
            )


def sentence(status: PartStatus) -> str:
    """Return one line about a part: what it waits for, and since when."""
    line = f"{status.part} waits for {status.waits_for}"
    if status.pid is None:
        line = f"{status.part} {status.waits_for}"
    line += f", {status.since_s:.0f} s" if status.since_s else ""
    return f"{line}; last error: {status.last_error}" if status.last_error else line


class _Look(NamedTuple):
    """The state of the run according to the journal."""

    newest: int
    paused: bool


async def _look(store: Store) -> _Look | None:
    """Return the state of the run; None if the store does not answer."""
    try:
        async with asyncio.timeout(ANSWER_S):
            return _Look(await store.wait(PROGRESS, 0, 0.0), await is_paused(store))
    except (TimeoutError, JournalError):
        return None
