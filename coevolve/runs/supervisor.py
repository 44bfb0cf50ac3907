"""Keeps the parts of a run working: it restarts a part that dies or raises an error.

The rest of the run sees no more than a pause, because everything that a part needs is in the
journal. If a part keeps failing, the run ends with the error message of that part.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import structlog

from protocols.control import PartFailed
from protocols.errors import CoevolveError, RunError
from protocols.interfaces import SupervisedPart

FAILURES = 8
WITHIN_S = 120.0
REVIVAL_S = 180.0
"""Maximum seconds of a restart. Loading vLLM beside others on two busy cores took up to 50 s."""

PAUSE_S = 0.2
LOOK_S = 5.0

log = structlog.get_logger()


async def note_replacements(
    parts: Sequence[SupervisedPart], note: Callable[[PartFailed], Awaitable[None]]
) -> None:
    """Record each of ``parts`` that Ray restarted on its own in a new process; never return."""
    known: dict[str, int] = {}
    while True:
        for part in parts:
            pid = (await part.status()).pid
            if pid and known.setdefault(part.name, pid) != pid:
                known[part.name] = pid
                await note(PartFailed(part=part.name, reason=f"{part.name}: its process ended"))
        await asyncio.sleep(LOOK_S)


class Supervisor:
    """Runs parts until they are stopped."""

    def __init__(
        self, parts: Sequence[SupervisedPart], note: Callable[[PartFailed], Awaitable[None]]
    ) -> None:
        self._parts = parts
        self._note = note
        self._stopping = False
        self.restarts = {part.name: 0 for part in parts}

    async def run(self) -> None:
        """Return when every part has stopped.

        Raises:
            RunError: A part raised a permanent error, or failed `FAILURES` times within
                `WITHIN_S` seconds.
        """
        async with asyncio.TaskGroup() as group:
            for part in self._parts:
                group.create_task(self._keep(part))

    async def stop(self) -> None:
        """Stop the parts one after the other, in the given order."""
        self._stopping = True
        for part in self._parts:
            await part.stop()

    async def _keep(self, part: SupervisedPart) -> None:
        failures: deque[float] = deque(maxlen=FAILURES)
        while True:
            try:
                await part.run()
            except CoevolveError as error:
                if error.is_permanent:
                    raise RunError(f"{part.name}: {error}") from error
                if self._stopping:
                    return
                failures.append(time.monotonic())
                if len(failures) == FAILURES and failures[-1] - failures[0] < WITHIN_S:
                    raise RunError(
                        f"{part.name} failed {FAILURES} times within {WITHIN_S:.0f} s; last error: "
                        f"{error}; see its log in logs/{part.name}.jsonl"
                    ) from error
                self.restarts[part.name] += 1
                log.warning("part_failed", part=part.name, reason=str(error))
                await self._revive(part, error)
                if self._stopping:
                    return
            else:
                return

    async def _revive(self, part: SupervisedPart, error: CoevolveError) -> None:
        """Wait until the part's process answers again; replace one that is alive but broken."""
        if (await part.status()).pid:
            await part.renew()
        await self._note(PartFailed(part=part.name, reason=str(error)))
        deadline = time.monotonic() + REVIVAL_S
        while not (await part.status()).pid:
            if time.monotonic() > deadline:
                raise RunError(f"{part.name}: did not restart within {REVIVAL_S:.0f} s: {error}")
            await asyncio.sleep(PAUSE_S)
