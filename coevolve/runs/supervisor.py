"""Keeps the parts of a run working: it restarts a part that dies or raises an error.

The rest of the run sees no more than a pause, because everything that a part needs is in the
journal. If a part keeps failing and finishes nothing in between, the run ends with the error
message of that part; a part that is killed from outside does finish something. The error says so
if a resumption would not help. There are two exceptions. A rollout engine is given up as long as
another one works. An optional part rests: the journal says so, with the cause, training goes on
without it, and it is tried again after a pause.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

import structlog

from coevolve.runs.part_failures import ALIKE, FAILURES, MET_AGAIN, WITHIN_S, PartFailures
from protocols.control import PartFailed
from protocols.errors import (
    CoevolveError,
    JournalFullError,
    LostError,
    PartStartError,
    RunError,
)
from protocols.interfaces import SupervisedPart

PAUSE_S = 0.2
LOOK_S = 5.0

WORK_LOOK_S = 2.0
"""Seconds between two looks at a part that has finished nothing yet."""

REST_S = 60.0
LONGEST_REST_S = 1800.0
"""Pause before an optional part is tried again; it doubles each time, up to the longest."""

STEADY_S = 30.0
"""Seconds that a part which rested has to work before it counts as working."""

ROOM_LOOK_S = 5.0
"""Seconds before a note that found the disk full is written again."""

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
                reason = f"{part.name}: its process ended"
                await noted(note, PartFailed(part=part.name, reason=reason))
        await asyncio.sleep(LOOK_S)


async def noted(note: Callable[..., Awaitable[None]], *what: object) -> None:
    """Call ``note``. A full disk ends no run for want of a note about it: it is logged instead."""
    try:
        await note(*what)
    except JournalFullError as error:
        log.warning("not_noted", what=[str(each) for each in what], reason=str(error))


class Supervisor:
    """Runs parts until they are stopped."""

    def __init__(
        self,
        parts: Sequence[SupervisedPart],
        note: Callable[[PartFailed], Awaitable[None]],
        *,
        restart_s: float,
        note_resting: Callable[[Mapping[str, str]], Awaitable[None]],
        spare: Sequence[SupervisedPart] = (),
        optional: Collection[str] = (),
    ) -> None:
        """Run ``parts``; record each failure with ``note``, and who rests with ``note_resting``.

        ``note_resting`` gets all parts that rest, with their errors. A part may take ``restart_s``
        seconds to restart. Parts of ``spare`` may take longer, as long as another of them works.
        Training goes on without those named in ``optional``.
        """
        self.parts = list(parts)
        self._optional = frozenset(optional)
        self._note = note
        self._note_resting = note_resting
        self._resting: dict[str, str] = {}
        """Optional parts that rest, and why."""

        self._told: dict[str, str] | None = {}
        """What was noted last; None if that is not known."""

        self._noting = asyncio.Lock()
        self._restart_s = restart_s
        self._spare = list(spare)
        self._stopping = False
        self._added: set[str] = set()
        self._worked: set[str] = set()
        """Parts that have finished a record since this start of the run."""

        self._leaving: set[str] = set()
        self.failed: dict[str, str] = {}
        """Spare parts that cannot work, and why; they wait for `let_go`."""

        self._stop = asyncio.Event()
        self._group = asyncio.TaskGroup()
        self._keeping: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Return when every part has stopped.

        Raises:
            RunError: A part raised a permanent error, or the same one `ALIKE` times, or died
                `FAILURES` times without ever finishing a record, or cannot start.
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
        self._stop.set()
        for part in self.parts:
            await part.stop()

    async def stop_but(self, names: Collection[str]) -> None:
        """Stop all parts but those of these names, and wait until they have ended."""
        others = [part for part in self.parts if part.name not in names]
        self._leaving.update(part.name for part in others)
        for part in others:
            await part.stop()
        await asyncio.wait([self._keeping[part.name] for part in others])

    def _begin(self, part: SupervisedPart) -> None:
        self._keeping[part.name] = self._group.create_task(self._keep(part))

    def _ends(self, part: SupervisedPart) -> bool:
        """Return whether the part should not start again."""
        return self._stopping or part.name in self._leaving

    async def _keep(self, part: SupervisedPart) -> None:
        failures = PartFailures()
        rests = 0
        while True:
            try:
                await self._run(part, failures)
            except CoevolveError as error:
                spared = part.name in self._optional or not error.is_permanent
                if part.name in self._leaving or (self._stopping and spared):
                    return
                failures.add(error)
                reason = self._reason_to_give_up(part, error, failures)
                if reason and part.name in self._optional:
                    await self._rest(part, reason, rests)
                    rests += 1
                    failures.clear()
                elif reason:
                    await self._give_up(part, reason, error, lasts=self._lasts(part, failures))
                    return
                log.warning("part_failed", part=part.name, reason=str(error))
                if self._ends(part):
                    return
                await self._revive(part, error)
                if self._ends(part):
                    return
            else:
                return

    async def _run(self, part: SupervisedPart, failures: PartFailures) -> None:
        """Run a part; forget its ``failures`` if it finishes a record.

        A part that rested counts as working after `STEADY_S`.
        """
        working = asyncio.create_task(_until_it_works(part))
        beside = [working]
        if part.name in self._resting:
            beside.append(asyncio.create_task(self._wake(part)))
        try:
            await part.run()
        finally:
            if working.done():
                self._worked.add(part.name)
                failures.clear()
            for each in beside:
                each.cancel()

    async def _wake(self, part: SupervisedPart) -> None:
        """Record that a part works again, once it has worked for a while and there is room."""
        await asyncio.sleep(STEADY_S)
        await self._tell_when_there_is_room(awake=part.name)

    async def _tell_when_there_is_room(self, awake: str = "") -> None:
        """Record who rests; on a full disk, repeat it until there is room or the run stops."""
        while not self._stop.is_set():
            try:
                await self._tell_resting(awake)
            except JournalFullError as error:
                log.warning("resting_not_noted", reason=str(error))
            else:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ROOM_LOOK_S):
                    await self._stop.wait()

    async def _tell_resting(self, awake: str = "") -> None:
        """Record who rests, if that changed; ``awake`` does not any more, once it is recorded."""
        async with self._noting:
            resting = {name: why for name, why in self._resting.items() if name != awake}
            if resting != self._told:
                self._told = None
                await self._note_resting(resting)
                self._told = resting
            self._resting.pop(awake, None)

    def _reason_to_give_up(
        self, part: SupervisedPart, error: CoevolveError, failures: PartFailures
    ) -> str:
        """Return why a part is not simply started again; empty if it is."""
        if error.is_permanent or part.name in self._resting:
            return f"{part.name}: {error}"
        if isinstance(error, PartStartError):
            return f"{error}; the traceback is in logs/{part.name}.jsonl"
        if failures.are_alike:
            return (
                f"{part.name} raised the same error {ALIKE} times in a row: {error}; {MET_AGAIN}; "
                f"see logs/{part.name}.jsonl"
            )
        if failures.are_many:
            again = f"; {MET_AGAIN}" if self._lasts(part, failures) else ""
            return (
                f"{part.name} failed {FAILURES} times within {WITHIN_S:.0f} s; last error: "
                f"{error}{again}; see its log in logs/{part.name}.jsonl"
            )
        return ""

    def _lasts(self, part: SupervisedPart, failures: PartFailures) -> bool:
        """Return whether a resumption would meet the failures again.

        It would if the part raised one error each time. It also would if its process died each
        time and has finished nothing since the run was started; otherwise something else may have
        killed it.
        """
        never_worked = part.name not in self._worked
        return failures.are_alike or (failures.are_deaths and never_worked)

    async def _rest(self, part: SupervisedPart, reason: str, rests: int) -> None:
        """Record that a part rests; return when it should be tried again, or at a stop."""
        self._let_rest(part, reason)
        pause_s = min(LONGEST_REST_S, REST_S * 2**rests)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._tell_when_there_is_room()
                await self._stop.wait()

    def _let_rest(self, part: SupervisedPart, reason: str) -> None:
        log.warning("part_rests", part=part.name, reason=reason)
        self._resting[part.name] = reason

    async def _revive(self, part: SupervisedPart, error: CoevolveError) -> None:
        """Wait until the part's process answers again; replace one that is alive but broken."""
        broken = (await part.status()).pid
        if broken:
            await part.renew()
        await noted(self._note, PartFailed(part=part.name, reason=str(error)))
        deadline = time.monotonic() + self._restart_s
        while (await part.status()).pid in (None, broken):  # a killed one may answer once more
            if self._ends(part):
                return
            if time.monotonic() > deadline:
                reason = (
                    f"{part.name}: did not restart within watchdog.restart_s = "
                    f"{self._restart_s:g} s: {error}"
                )
                if part.name in self._optional:
                    self._let_rest(part, reason)
                    await noted(self._tell_resting)
                elif not await self._can_be_spared(part):
                    raise LostError(reason)
                deadline = time.monotonic() + self._restart_s
                log.warning("part_missing", part=part.name, reason=str(error))
            await asyncio.sleep(PAUSE_S)

    async def _give_up(
        self, part: SupervisedPart, reason: str, error: CoevolveError, *, lasts: bool
    ) -> None:
        """Note that a part cannot work. Raises RunError if the run needs it, or all of its kind."""
        needed = error.is_permanent and part.name not in self._added
        if needed or not await self._can_be_spared(part):
            again = not (lasts or error.is_permanent or isinstance(error, PartStartError))
            raise (LostError if again else RunError)(reason) from error
        log.warning("part_given_up", part=part.name, reason=reason)
        self.failed[part.name] = reason

    async def _can_be_spared(self, part: SupervisedPart) -> bool:
        """Return whether another part does the same work meanwhile."""
        if part not in self._spare:
            return False
        others = [each for each in self._spare if each is not part]
        return any([(await each.status()).pid for each in others])


async def _until_it_works(part: SupervisedPart) -> None:
    """Return when the part's process has finished a record."""
    while True:
        if (await part.status()).done:
            return
        await asyncio.sleep(WORK_LOOK_S)
