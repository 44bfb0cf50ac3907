"""Attempts at foreign work: the boundary round each, their number, and the order of risky ones.

A work item is a record that a part takes: a rollout request, a signal, a candidate. What it holds
may come from anybody, so an attempt at it may raise any error, or kill the process.

Guarantees:

- Whatever an attempt raises becomes an outcome of its item, except for the errors of the part
  itself (`OWN`). The other items go on.
- Attempts are counted in the journal before they begin, so those that killed their process count.
  After ``watchdog.attempts`` of them the item is finished, with a `DeadLetter`.
- The last attempt is made while the process has no other item in work (`AttemptQueue`). So an item
  that only shared a process with a deadly one is never given up for it. If the process ends then as
  well, the attempt is made once more, because somebody may have killed it from outside.

Not covered: an attempt that never ends. Each part bounds the time of its own work.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

import structlog

from coevolve.journal.codec import decode, topic_of
from coevolve.journal.lookups import all_of
from coevolve.journal.mailbox import IDLE_WAIT_S, Delivery, Mailbox
from protocols.config import RunConfig
from protocols.control import DeadLetter, LetterAnswered, LetterRetried, UnitsBegan
from protocols.errors import CoevolveError, DeliveryError, GeneratorError, JournalError, first_error
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
"""Of every SUSPECTS concurrent slots, at most one runs an item that was attempted before."""

log = structlog.get_logger()

Outcome = Sequence[Message]


class WorkItem(NamedTuple):
    """One record to work on."""

    sequence: int
    """The record that is finished with it."""

    message: Message
    retry_of: int = 0
    """Sequence of the dead letter that it retries; 0 if it retries none."""


class RetriesExhausted(Exception):  # noqa: N818 - says what happened, not what is wrong
    """All attempts at an item failed; the message says how the last one did."""


class Attempts:
    """The attempts of one member of one consumer."""

    def __init__(self, mailbox: Mailbox, config: RunConfig, reader: Reader) -> None:
        """Count the attempts at what ``mailbox`` takes, as its member of its consumer."""
        self._mailbox = mailbox
        self._reader = reader
        self._consumer = mailbox.consumer
        self._member = mailbox.member
        self._max = config.watchdog.attempts
        # Not the mailbox's own writes: an attempt does not wait for the results of others.
        self._append = mailbox.beside()
        self._begun = Counter[int]()
        self._prepared: set[int] = set()
        """Items whose next attempt is in the journal already."""

        self._open: set[int] = set()
        """Items with an attempt in the journal of which nothing has come yet."""

        self._raised: set[int] = set()
        """Items of which an attempt raised an error."""

    async def take(
        self, limit: int, wait_s: float = IDLE_WAIT_S, at_least: int = 1
    ) -> list[WorkItem]:
        """Return further items, as `Mailbox.take` does, and record the first attempts at them."""
        items = await self.items(await self._mailbox.take(limit, wait_s, at_least))
        await self.prepare(items)
        return items

    async def items(self, deliveries: Iterable[Delivery]) -> list[WorkItem]:
        """Return what to work on: not the retries of other consumers' items."""
        return [item for each in deliveries if (item := await self._item(each)) is not None]

    async def prepare(self, items: Sequence[WorkItem]) -> None:
        """Count the earlier attempts at items, and record the first ones at those without any."""
        await self.recall(items)
        fresh = [item.sequence for item in items if not self._begun[item.sequence]]
        await self._record(fresh)
        self._prepared.update(fresh)

    def count(self, item: WorkItem) -> int:
        """Return how many attempts were made at an item; prepared attempts are not counted."""
        return self._begun[item.sequence] - (item.sequence in self._prepared)

    def was_attempted_before(self, item: WorkItem) -> bool:
        """Return whether an attempt at an item was made that may have killed its process."""
        return self.count(item) > 0

    def is_spent(self, item: WorkItem) -> bool:
        """Return whether there is no further attempt at an item."""
        return self.count(item) >= self._max + (item.sequence not in self._raised)

    def is_last(self, item: WorkItem) -> bool:
        """Return whether the next attempt at an item is the last one, or repeats it."""
        return self.count(item) >= self._max - 1

    async def attempted(self, item: WorkItem, work: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Return the outputs of ``work``, attempted until it raises nothing.

        Raises RetriesExhausted after the last attempt, and the errors of `OWN`.
        """
        reason = KILLED
        pause_s = PAUSE_S
        while not self.is_spent(item):
            await self.begin(item)
            try:
                return await work()
            except OWN:
                raise
            except Exception as error:
                self.failed(item)
                reason = reason_of(error)
                log.exception("attempt_failed", sequence=item.sequence, unit=words(item.message))
            if not self.is_spent(item):
                await asyncio.sleep(pause_s)
                pause_s *= 2
        raise RetriesExhausted(reason)

    async def outcome_of(
        self,
        item: WorkItem,
        work: Callable[[], Awaitable[Outcome]],
        on_failure: Callable[[str], Outcome] = lambda reason: (),
    ) -> Outcome:
        """Return what to write when ``item`` is finished.

        That is the outputs of ``work``, or after its last attempt those of ``on_failure``, which
        gets the reason, with a dead letter.
        """
        try:
            return self.finished(item, await self.attempted(item, work))
        except RetriesExhausted as error:
            return self.dead_letter(item, str(error), on_failure(str(error)))

    def finished(self, item: WorkItem, outputs: Outcome) -> Outcome:
        """Return ``outputs``, with the answer to a retry."""
        if not item.retry_of:
            return outputs
        outcome = ", ".join(sorted({topic_of(type(each)) for each in outputs}))
        answer = LetterAnswered(
            letter=item.retry_of, done=True, outcome=outcome or "nothing to record"
        )
        return (*outputs, answer)

    def dead_letter(self, item: WorkItem, reason: str, outputs: Outcome = ()) -> Outcome:
        """Return ``outputs`` with the dead letter of an item, or with the answer to its retry."""
        log.error("unit_given_up", sequence=item.sequence, reason=reason)
        if item.retry_of:
            return (_not_done(item.retry_of, reason),)
        letter = DeadLetter(
            consumer=self._consumer,
            sequence=item.sequence,
            unit=words(item.message),
            subject=subject_of(item.message),
            attempts=self.count(item),
            reason=reason,
        )
        return (*outputs, letter)

    def skipped(self, item: WorkItem, reason: str, outputs: Outcome) -> Outcome:
        """Return what to write when an item is finished without an attempt: ``outputs``.

        If the item is a retry, that is the answer to it instead, because ``outputs`` exist already.
        """
        return (_not_done(item.retry_of, reason),) if item.retry_of else outputs

    def forget(self, sequences: Iterable[int]) -> None:
        """Drop the counts of finished items."""
        for sequence in sequences:
            del self._begun[sequence]
            self._prepared.discard(sequence)
            self._open.discard(sequence)
            self._raised.discard(sequence)

    async def recall(self, items: Sequence[WorkItem]) -> None:
        """Count the attempts at these items that the journal has."""
        known = {item.sequence for item in items}
        self._prepared -= known
        for sequence in known:
            del self._begun[sequence]
        if not known:
            return
        async for began in all_of(self._reader, UnitsBegan, min(known)):
            if began.consumer == self._consumer:
                self._begun.update(known.intersection(began.sequences))
                self._begun.subtract(known.intersection(began.put_back))

    async def begin(self, item: WorkItem) -> None:
        """Count an attempt; return when the journal has it."""
        if item.sequence in self._prepared:
            self._prepared.discard(item.sequence)
        else:
            await self._record((item.sequence,))

    def failed(self, item: WorkItem) -> None:
        self._open.discard(item.sequence)
        self._raised.add(item.sequence)

    async def put_back(self, item: WorkItem) -> None:
        """Take the last attempt back, because it said nothing about its item."""
        self._open.discard(item.sequence)
        self._begun[item.sequence] -= 1
        await self._append((self._began(put_back=(item.sequence,)),))

    async def release(self) -> None:
        """Take back the attempts that a clean stop ends."""
        if self._open:
            await self._append((self._began(put_back=tuple(sorted(self._open))),))
            self._open.clear()

    async def _item(self, delivery: Delivery) -> WorkItem | None:
        """Return what to work on; None for a retry of another consumer's item."""
        sequence, message = delivery
        if not isinstance(message, LetterRetried):
            return WorkItem(sequence, message)
        if message.consumer != self._consumer:
            await self._mailbox.complete((sequence,))
            return None
        try:
            (record,) = await self._reader.read((message.sequence,))
        except JournalError as error:  # retention has dropped it
            await self._mailbox.complete((sequence,), (_not_done(message.letter, str(error)),))
            return None
        return WorkItem(sequence, decode(record), message.letter)

    async def _record(self, sequences: Sequence[int]) -> None:
        if sequences:
            await self._append((self._began(tuple(sequences)),))
            self._begun.update(sequences)
            self._open.update(sequences)

    def _began(self, sequences: tuple[int, ...] = (), put_back: tuple[int, ...] = ()) -> UnitsBegan:
        return UnitsBegan(
            consumer=self._consumer, member=self._member, sequences=sequences, put_back=put_back
        )


class AttemptQueue:
    """Items that were taken, and the order in which a process begins them.

    An item of which an earlier attempt may have killed a process has few others of its kind beside
    it, and at its last attempt none at all. Of those at their last attempt, items that were never
    alone, and first members of each group, come first: if others kill the process, these are done.
    """

    def __init__(self, attempts: Attempts, concurrent: int) -> None:
        """Let up to ``concurrent`` items be in work."""
        self._attempts = attempts
        self._concurrent = concurrent
        self._fresh: deque[WorkItem] = deque()
        self._suspects: deque[WorkItem] = deque()
        self._last: deque[WorkItem] = deque()
        self._live: set[int] = set()
        self._live_suspects: set[int] = set()
        self._alone = False

    def __len__(self) -> int:
        return len(self._fresh) + len(self._suspects) + len(self._last)

    def add(self, items: Iterable[WorkItem]) -> None:
        for item in items:
            if not self._attempts.was_attempted_before(item):
                self._fresh.append(item)
            elif self._attempts.is_last(item):
                self._last.append(item)
            else:
                self._suspects.append(item)
        self._last = deque(sorted(self._last, key=self._order))

    def begin_next(self) -> WorkItem | None:
        """Return the next item, which is in work now; None if none may begin yet."""
        if self._alone or len(self._live) >= self._concurrent:
            return None
        if self._last:
            if self._live:
                return None
            self._alone = True
            item = self._last.popleft()
        elif self._suspects and len(self._live_suspects) < max(1, self._concurrent // SUSPECTS):
            item = self._suspects.popleft()
            self._live_suspects.add(item.sequence)
        elif self._fresh:
            item = self._fresh.popleft()
        else:
            return None
        self._live.add(item.sequence)
        return item

    def _order(self, item: WorkItem) -> tuple[int, int]:
        """Return how often an item was attempted, and its number in its group, if it has one."""
        return self._attempts.count(item), getattr(item.message, "index", 0)

    def ended(self, item: WorkItem) -> None:
        """Count an item that was begun as ended."""
        self._live.discard(item.sequence)
        self._live_suspects.discard(item.sequence)
        self._alone = False


def _not_done(letter: int, reason: str) -> LetterAnswered:
    return LetterAnswered(letter=letter, done=False, outcome=reason)


def reason_of(error: BaseException) -> str:
    """Return an error as one printable line of bounded length.

    The project's own errors are sentences; others are preceded by their class.
    """
    error = first_error(error)
    text = "".join(c if c.isprintable() else " " for c in str(error)[: 2 * REASON_CHARS])
    line = " ".join(text.split())
    if not isinstance(error, CoevolveError):
        line = f"{type(error).__name__}: {line}"
    return f"{line[:REASON_CHARS]}..." if len(line) > REASON_CHARS else line


def words(message: Message) -> str:
    """Return an item in a few words."""
    topic = topic_of(type(message)).replace("_", " ")
    names = ("group_id", "index", "probe_id", "candidate_id", "signal_id", "task_id", "version")
    told = (f"{name} {getattr(message, name)}" for name in names if hasattr(message, name))
    return f"{topic}: {', '.join(told)}"


def subject_of(message: Message) -> str:
    """Return what an item is about: a candidate, a signal, a group's number; empty for others."""
    names = ("candidate_id", "signal_id", "group")
    return next((str(getattr(message, name)) for name in names if hasattr(message, name)), "")
