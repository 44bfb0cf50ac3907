"""Keeps the parts of a run working: it restarts a part that dies or raises an error.

The rest of the run sees no more than a pause, because everything that a part needs is in the
journal. If a part keeps failing and finishes nothing in between, the run ends with the error
message of that part. A part that is killed from outside does finish something between two kills.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import structlog

from protocols.control import PartFailed
from protocols.errors import CoevolveError, LostError, RunError
from protocols.interfaces import SupervisedPart

FAILURES = 8
WITHIN_S = 120.0
PAUSE_S = 0.2
LOOK_S = 5.0

WORK_LOOK_S = 2.0
"""Seconds between two looks at a part that has finished nothing yet."""

LEAVE_S = 30.0
"""Seconds that a part may take to leave the run; then its process ends anyway."""

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
        self,
        parts: Sequence[SupervisedPart],
        note: Callable[[PartFailed], Awaitable[None]],
        *,
        restart_s: float,
        spare: Sequence[SupervisedPart] = (),
    ) -> None:
        """Run ``parts``; record each failure with ``note``.

        A part may take ``restart_s`` seconds to restart. Parts of ``spare`` may take longer, as
        long as another of them works.
        """
        self.parts = list(parts)
        self._note = note
        self._restart_s = restart_s
        self._spare = list(spare)
        self._stopping = False
        self._added: set[str] = set()
        self._leaving: set[str] = set()
        self.failed: dict[str, str] = {}
        """Added parts that cannot work, and why; they wait for `let_go`."""

        self._group = asyncio.TaskGroup()
        self._keeping: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Return when every part has stopped.

        Raises:
            RunError: A part raised a permanent error.
            LostError: A part failed `FAILURES` times within `WITHIN_S` seconds without finishing
                a record in between, or did not restart.
        """
        async with self._group:
            for part in self.parts:
                self._begin(part)

    def add(self, part: SupervisedPart) -> None:
        """Run another spare part, while `run` runs. It stops before all others.

        If it cannot work, it joins `failed` as long as another spare part works.
        """
        self.parts.insert(0, part)
        self._spare.append(part)
        self._added.add(part.name)
        self._begin(part)

    async def let_go(self, part: SupervisedPart, *, lost: bool) -> None:
        """Stop a spare part and end its process. A ``lost`` process cannot be reached."""
        self._leaving.add(part.name)
        keeping = self._keeping.pop(part.name)
        if not lost:
            await part.stop()
            await asyncio.wait((keeping,), timeout=LEAVE_S)
        await part.end()
        await asyncio.wait((keeping,))
        self._spare.remove(part)
        self.parts.remove(part)
        self._added.discard(part.name)
        self._leaving.discard(part.name)
        self.failed.pop(part.name, None)

    async def stop(self) -> None:
        """Stop the parts one after the other, in the given order."""
        self._stopping = True
        for part in self.parts:
            await part.stop()

    def _begin(self, part: SupervisedPart) -> None:
        self._keeping[part.name] = self._group.create_task(self._keep(part))

    def _ends(self, part: SupervisedPart) -> bool:
        """Return whether the part should not start again."""
        return self._stopping or part.name in self._leaving

    async def _keep(self, part: SupervisedPart) -> None:
        failures: deque[float] = deque(maxlen=FAILURES)
        while error := await _lived(part, failures):
            if part.name in self._leaving:
                return
            if error.is_permanent:
                await self._give_up(part, f"{part.name}: {error}", error)
                return
            if self._stopping:
                return
            failures.append(time.monotonic())
            if len(failures) == FAILURES and failures[-1] - failures[0] < WITHIN_S:
                reason = (
                    f"{part.name} failed {FAILURES} times within {WITHIN_S:.0f} s; last error: "
                    f"{error}; see its log in logs/{part.name}.jsonl"
                )
                await self._give_up(part, reason, error)
                return
            log.warning("part_failed", part=part.name, reason=str(error))
            await self._revive(part, error)
            if self._ends(part):
                return

    async def _revive(self, part: SupervisedPart, error: CoevolveError) -> None:
        """Wait until the part's process answers again; replace one that is alive but broken."""
        if (await part.status()).pid:
            await part.renew()
        await self._note(PartFailed(part=part.name, reason=str(error)))
        deadline = time.monotonic() + self._restart_s
        while not (await part.status()).pid:
            if self._ends(part):
                return
            if time.monotonic() > deadline:
                if not await self._can_be_spared(part):
                    raise LostError(
                        f"{part.name}: did not restart within watchdog.restart_s = "
                        f"{self._restart_s:g} s: {error}"
                    )
                deadline = time.monotonic() + self._restart_s
                log.warning("part_missing", part=part.name, reason=str(error))
            await asyncio.sleep(PAUSE_S)

    async def _give_up(self, part: SupervisedPart, reason: str, error: CoevolveError) -> None:
        """Note that an added part cannot work. Raises RunError if the run needs the part."""
        if part.name not in self._added or not await self._can_be_spared(part):
            raise (RunError if error.is_permanent else LostError)(reason) from error
        log.warning("part_given_up", part=part.name, reason=reason)
        self.failed[part.name] = reason

    async def _can_be_spared(self, part: SupervisedPart) -> bool:
        """Return whether another part does the same work meanwhile."""
        if part not in self._spare:
            return False
        others = [each for each in self._spare if each is not part]
        return any([(await each.status()).pid for each in others])


async def _lived(part: SupervisedPart, failures: deque[float]) -> CoevolveError | None:
    """Run a part until it ends; return its error, or None if it stopped.

    Forget its earlier ``failures`` if it finished a record.
    """
    working = asyncio.create_task(_until_it_works(part))
    try:
        await part.run()
    except CoevolveError as error:
        if working.done():
            failures.clear()
        return error
    finally:
        working.cancel()
    return None


async def _until_it_works(part: SupervisedPart) -> None:
    """Return when the part's process has finished a record."""
    while True:
        if (await part.status()).done:
            return
        await asyncio.sleep(WORK_LOOK_S)
