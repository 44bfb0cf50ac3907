"""Units of foreign work: the boundary round each, and the number of attempts at it.

A unit is a record that a part takes: a rollout request, a signal, a candidate. What it holds may
come from anybody, so an attempt at it may raise any error, or kill the process.

Guarantees:

- Whatever an attempt raises becomes an outcome of its unit, except for the errors of the part
  itself (`OWN`). The other units go on.
- Attempts are counted in the journal before they begin, so those that killed their process count.
  After ``watchdog.attempts`` of them the unit is finished, with a `DeadLetter`.
- The last attempt is made while the process has no other unit in work (`UnitQueue`). So a unit that
  only shared a process with a deadly one is never given up for it.

Not covered: an attempt that never ends. Each part bounds the time of its own work.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, cast

import structlog

from coevolve.journal.codec import decode, decode_as, topic_of
from coevolve.journal.mailbox import IDLE_WAIT_S, Delivery, Mailbox
from coevolve.journal.paging import whole_topic
from protocols.config import RunConfig
from protocols.control import DeadLetter, LetterAnswered, LetterRetried, UnitsBegan
from protocols.errors import CoevolveError, DeliveryError, GeneratorError, JournalError
from protocols.interfaces import Reader
from protocols.journal import Message

OWN = (JournalError, GeneratorError, DeliveryError)
"""Errors of the part: its journal or its engine failed, and the part starts again."""

PAUSE_S = 0.2
"""Pause before the second attempt; it doubles with each further one."""

REASON_CHARS = 1500

KILLED = "its process ended at each attempt"
"""The reason if no attempt lived to raise an error."""

SUSPECTS = 4
"""Units that were begun before take at most one in so many places, until their last attempt."""

log = structlog.get_logger()

Outcome = Sequence[Message]


class Unit(NamedTuple):
    """One record to work on."""

    sequence: int
    """The record that is finished with it."""

    message: Message
    letter: int = 0
    """Sequence of the dead letter that it retries; 0 if it retries none."""


class SpoiltUnitError(Exception):
    """All attempts at a unit failed; the message says how the last one did."""


class Units:
    """The units of one member of one consumer."""

    def __init__(self, mailbox: Mailbox, config: RunConfig, reader: Reader) -> None:
        """Count the attempts at what ``mailbox`` takes, as its member of its consumer."""
        self._mailbox = mailbox
        self._reader = reader
        self._consumer = mailbox.consumer
        self._member = mailbox.member
        self._most = config.watchdog.attempts
        # Not the mailbox's own writes: an attempt does not wait for the results of others.
        self._append = mailbox.beside()
        self._begun = Counter[int]()
        self._recorded: set[int] = set()
        """Units whose next attempt is in the journal already."""

        self._open: set[int] = set()
        """Units with an attempt in the journal of which nothing has come yet."""

    async def take(self, limit: int, wait_s: float = IDLE_WAIT_S, at_least: int = 1) -> list[Unit]:
        """Return further units, as `Mailbox.take` does, and record the first attempts at them."""
        taken = await self._mailbox.take(limit, wait_s, at_least)
        units = [unit for each in taken if (unit := await self.unit(each)) is not None]
        await self.prepare(units)
        return units

    async def prepare(self, units: Sequence[Unit]) -> None:
        """Count the earlier attempts at units, and record the first ones at those without any."""
        await self.recall(units)
        fresh = [unit.sequence for unit in units if not self._begun[unit.sequence]]
        await self._record(fresh)
        self._recorded.update(fresh)

    def attempts(self, unit: Unit) -> int:
        """Return how many attempts were made at a unit; an attempt that is prepared counts not."""
        return self._begun[unit.sequence] - (unit.sequence in self._recorded)

    def is_spent(self, unit: Unit) -> bool:
        """Return whether there is no further attempt at a unit."""
        return self.attempts(unit) >= self._most

    def is_last(self, unit: Unit) -> bool:
        """Return whether the next attempt at a unit is the last one."""
        return self.attempts(unit) >= self._most - 1

    async def attempted(self, unit: Unit, work: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Return the outputs of ``work``, attempted until it raises nothing.

        Raises SpoiltUnitError after the last attempt, and the errors of `OWN`.
        """
        reason = KILLED
        pause_s = PAUSE_S
        while not self.is_spent(unit):
            await self.begin(unit)
            try:
                return await work()
            except OWN:
                raise
            except Exception as error:
                self.failed(unit)
                reason = reason_of(error)
                log.exception("attempt_failed", sequence=unit.sequence, unit=words(unit.message))
            if not self.is_spent(unit):
                await asyncio.sleep(pause_s)
                pause_s *= 2
        raise SpoiltUnitError(reason)

    async def settled(
        self,
        unit: Unit,
        work: Callable[[], Awaitable[Outcome]],
        spoilt: Callable[[str], Outcome] = lambda reason: (),
    ) -> Outcome:
        """Return what to write when ``unit`` is finished.

        That is the outputs of ``work``, or after its last attempt those of ``spoilt``, which gets
        the reason, with a dead letter.
        """
        try:
            return self.done(unit, await self.attempted(unit, work))
        except SpoiltUnitError as error:
            return self.given_up(unit, str(error), spoilt(str(error)))

    def done(self, unit: Unit, outputs: Outcome) -> Outcome:
        """Return ``outputs``, with the answer to a retry."""
        if not unit.letter:
            return outputs
        outcome = ", ".join(sorted({topic_of(type(each)) for each in outputs}))
        answer = LetterAnswered(
            letter=unit.letter, done=True, outcome=outcome or "nothing to record"
        )
        return (*outputs, answer)

    def given_up(self, unit: Unit, reason: str, outputs: Outcome = ()) -> Outcome:
        """Return ``outputs`` with the dead letter of a unit, or with the answer to its retry."""
        log.error("unit_given_up", sequence=unit.sequence, reason=reason)
        if unit.letter:
            return (_not_done(unit.letter, reason),)
        letter = DeadLetter(
            consumer=self._consumer,
            sequence=unit.sequence,
            unit=words(unit.message),
            subject=subject_of(unit.message),
            attempts=self.attempts(unit),
            reason=reason,
        )
        return (*outputs, letter)

    def left_out(self, unit: Unit, reason: str, outputs: Outcome) -> Outcome:
        """Return what to write when a unit is finished without an attempt: ``outputs``.

        If the unit is a retry, that is the answer to it instead, because ``outputs`` exist already.
        """
        return (_not_done(unit.letter, reason),) if unit.letter else outputs

    def forget(self, sequences: Iterable[int]) -> None:
        """Drop the counts of finished units."""
        for sequence in sequences:
            del self._begun[sequence]
            self._recorded.discard(sequence)
            self._open.discard(sequence)

    async def unit(self, delivery: Delivery) -> Unit | None:
        """Return what to work on; None for a retry of another consumer's unit."""
        sequence, message = delivery
        if not isinstance(message, LetterRetried):
            return Unit(sequence, message)
        if message.consumer != self._consumer:
            await self._mailbox.complete((sequence,))
            return None
        try:
            (record,) = await self._reader.read((message.sequence,))
        except JournalError as error:  # retention has dropped it
            await self._mailbox.complete((sequence,), (_not_done(message.letter, str(error)),))
            return None
        return Unit(sequence, decode(record), message.letter)

    async def recall(self, units: Sequence[Unit]) -> None:
        """Count the attempts at these units that the journal has."""
        known = {unit.sequence for unit in units}
        self._recorded -= known
        for sequence in known:
            del self._begun[sequence]
        if not known:
            return
        async for record in whole_topic(self._reader, topic_of(UnitsBegan), min(known)):
            began = decode_as(record, UnitsBegan)
            if began.consumer == self._consumer:
                self._begun.update(known.intersection(began.sequences))
                self._begun.subtract(known.intersection(began.put_back))

    async def begin(self, unit: Unit) -> None:
        """Count an attempt; return when the journal has it."""
        if unit.sequence in self._recorded:
            self._recorded.discard(unit.sequence)
        else:
            await self._record((unit.sequence,))

    def failed(self, unit: Unit) -> None:
        """Let the attempt at a unit count."""
        self._open.discard(unit.sequence)

    async def put_back(self, unit: Unit) -> None:
        """Take the last attempt back, because it said nothing about its unit."""
        self._open.discard(unit.sequence)
        self._begun[unit.sequence] -= 1
        await self._append((self._began(put_back=(unit.sequence,)),))

    async def release(self) -> None:
        """Take back the attempts that a clean stop ends."""
        if self._open:
            await self._append((self._began(put_back=tuple(sorted(self._open))),))
            self._open.clear()

    async def _record(self, sequences: Sequence[int]) -> None:
        if sequences:
            await self._append((self._began(tuple(sequences)),))
            self._begun.update(sequences)
            self._open.update(sequences)

    def _began(self, sequences: tuple[int, ...] = (), put_back: tuple[int, ...] = ()) -> UnitsBegan:
        return UnitsBegan(
            consumer=self._consumer, member=self._member, sequences=sequences, put_back=put_back
        )


class UnitQueue:
    """Units that were taken, and the order in which a process begins them.

    A unit of which an earlier attempt may have killed a process has few others of its kind beside
    it, and at its last attempt none at all. Last attempts begin with the first member of each
    group: if the members of one kill the process, the other groups do not wait for all of them.
    """

    def __init__(self, units: Units, concurrent: int) -> None:
        """Let up to ``concurrent`` units be in work."""
        self._units = units
        self._concurrent = concurrent
        self._fresh: deque[Unit] = deque()
        self._suspects: deque[Unit] = deque()
        self._last: deque[Unit] = deque()
        self._live: set[int] = set()
        self._live_suspects: set[int] = set()
        self._alone = False

    def __len__(self) -> int:
        return len(self._fresh) + len(self._suspects) + len(self._last)

    def add(self, units: Iterable[Unit]) -> None:
        """Add units."""
        for unit in units:
            if not self._units.attempts(unit):
                self._fresh.append(unit)
            elif self._units.is_last(unit):
                self._last.append(unit)
            else:
                self._suspects.append(unit)
        self._last = deque(sorted(self._last, key=_index))

    def begin_next(self) -> Unit | None:
        """Return the next unit, which is in work now; None if none may begin yet."""
        if self._alone or len(self._live) >= self._concurrent:
            return None
        if self._last:
            if self._live:
                return None
            self._alone = True
            unit = self._last.popleft()
        elif self._suspects and len(self._live_suspects) < max(1, self._concurrent // SUSPECTS):
            unit = self._suspects.popleft()
            self._live_suspects.add(unit.sequence)
        elif self._fresh:
            unit = self._fresh.popleft()
        else:
            return None
        self._live.add(unit.sequence)
        return unit

    def ended(self, unit: Unit) -> None:
        """Count a unit that was begun as ended."""
        self._live.discard(unit.sequence)
        self._live_suspects.discard(unit.sequence)
        self._alone = False


def _index(unit: Unit) -> int:
    """Return a unit's number in its group; 0 for other units."""
    return getattr(unit.message, "index", 0)


def _not_done(letter: int, reason: str) -> LetterAnswered:
    return LetterAnswered(letter=letter, done=False, outcome=reason)


def reason_of(error: BaseException) -> str:
    """Return an error as one printable line of bounded length.

    The project's own errors are sentences; others are preceded by their class.
    """
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    text = "".join(c if c.isprintable() else " " for c in str(error)[: 2 * REASON_CHARS])
    line = " ".join(text.split())
    if not isinstance(error, CoevolveError):
        line = f"{type(error).__name__}: {line}"
    return f"{line[:REASON_CHARS]}..." if len(line) > REASON_CHARS else line


def words(message: Message) -> str:
    """Return a unit in a few words."""
    topic = topic_of(type(message)).replace("_", " ")
    names = ("group_id", "index", "probe_id", "candidate_id", "signal_id", "task_id", "version")
    told = (f"{name} {getattr(message, name)}" for name in names if hasattr(message, name))
    return f"{topic}: {', '.join(told)}"


def subject_of(message: Message) -> str:
    """Return what a unit is about: a candidate, a signal, a group's number; empty for others."""
    names = ("candidate_id", "signal_id", "group")
    return next((str(getattr(message, name)) for name in names if hasattr(message, name)), "")
