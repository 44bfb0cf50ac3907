"""The worker of every part that takes records, works on them, and writes what came of them.

Guarantees:

- One transaction finishes a record and adds its outcome, so each record is answered exactly once
  even if processes are killed. The work on a record that another member has taken over is dropped.
- Each run begins with a new incarnation of the mailbox, so nothing of a run that failed is left.
- A clean stop drops the items in work: they stay unfinished, and their attempts do not count. What
  was completed by then is in the journal.

The concerns have a file each: leases in `coevolve.journal.mailbox`, attempts, retries and dead
letters in `coevolve.parts.attempts`, delays in `coevolve.parts.pace`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from coevolve.parts.attempts import AttemptQueue, Attempts, Outcome, WorkItem, words
from coevolve.parts.context import PartContext
from coevolve.parts.pace import PACES, Pace
from coevolve.parts.status import StatusReporter
from coevolve.parts.stopping import unless_stopped
from protocols.control import LetterAnswered, PartStatus
from protocols.errors import ContractError, LeaseLostError
from protocols.journal import Message

log = structlog.get_logger()


class Worker:
    """One member of one consumer, from the start of a part to its stop."""

    def __init__(
        self,
        consumer: str,
        context: PartContext,
        name: str = "",
        takes: Sequence[type[Message]] | None = None,
    ) -> None:
        """Take records as the member ``name``; by default the only one.

        It takes the kinds ``takes``, by default all that the part takes.
        """
        self.consumer = consumer
        self.pace = PACES.get(consumer, Pace())
        self.reporter = StatusReporter(name or consumer)
        self._stopping = asyncio.Event()
        self._context = context
        self._takes = context.takes if takes is None else takes
        self._name = name
        self._open()

    def _open(self) -> None:
        self.mailbox = self._context.mailbox(
            self.consumer, self._name, self._takes, self.pace.write_gather_s
        )
        self.attempts = Attempts(self.mailbox, self._context.config, self._context.reader)

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do ``work``, as a new incarnation, until stopped. Raises what it raises."""
        self._open()
        await unless_stopped(self._stopping, work())
        await self.mailbox.flush()
        await self.attempts.release()

    async def stop(self) -> None:
        """Drop the items in work (they stay unfinished) and make ``run`` return."""
        self._stopping.set()

    def status(self, elsewhere: int = 0) -> PartStatus:
        """Return the part's status; ``elsewhere`` is the number of records that it holds beside."""
        return self.reporter.report(len(self.mailbox.held) + elsewhere)

    async def hand_in(
        self, item: WorkItem, outcome: Outcome, *, gather_s: float | None = None
    ) -> bool:
        """Finish an item with its outcome, unless its handler has finished it already.

        ``gather_s`` replaces the delay of the pace. Returns False if another member has taken the
        item over. Raises ContractError if the journal cannot hold the outcome.
        """
        is_kept = True
        if item.sequence in self.mailbox.held:
            try:
                await self.mailbox.complete((item.sequence,), outcome, gather_s=gather_s)
                self.reporter.done += 1
            except LeaseLostError as error:
                log.warning("work_dropped", item=words(item.message), reason=str(error))
                is_kept = False
        self.attempts.forget((item.sequence,))
        return is_kept


@dataclass(frozen=True)
class Handler:
    """How a part answers the records of one kind."""

    work: Callable[[Any, WorkItem], Awaitable[Outcome]]
    """Returns what to write when a record is finished. Whatever it raises is attempted again."""

    on_failure: Callable[[Any, str, int], Outcome] = lambda message, reason, attempts: ()
    """Returns what to write with the dead letter, from the reason and the number of attempts."""


class Dispatcher:
    """Lets the handlers answer a worker's items, several at a time.

    Outcomes are written while other items are in work. But an outcome after an earlier attempt that
    may have killed its process is written before the next such item begins: another death must not
    count against an item that was done.
    """

    def __init__(
        self,
        worker: Worker,
        handlers: Mapping[type[Message], Handler],
        *,
        concurrent: int,
        take_limit: int,
        held: int,
        activity: Callable[[int, bool], str],
        is_urgent: Callable[[Message, Sequence[Message]], bool] = lambda message, others: False,
        writes_retried: bool = True,
    ) -> None:
        """Work on ``concurrent`` items at a time, and hold up to ``held``, those included.

        Args:
            worker: Takes the items, and hands them in.
            handlers: One for each kind that the worker takes, apart from retries.
            concurrent: Maximum number of items in work.
            take_limit: Maximum number of items that one take returns.
            held: Maximum number of items in work and taken ahead.
            activity: Returns what the status shows while this many items are in work, and whether
                no more can be taken.
            is_urgent: Returns whether the outcome of a message is urgent, given the messages in
                progress beside it.
            writes_retried: Whether the retry of a dead letter writes its outcome, beside the
                answer.
        """
        self._worker = worker
        self._handlers = handlers
        self._concurrent = concurrent
        self._take_limit = take_limit
        self._held = held
        self._activity = activity
        self._is_urgent = is_urgent
        self._writes_retried = writes_retried
        self._live: set[asyncio.Task[None]] = set()
        self._in_progress: dict[int, Message] = {}
        """What was taken and is not being handed in, by sequence."""

    async def serve(self, group: asyncio.TaskGroup) -> None:
        """Answer items, in tasks of ``group``, until cancelled. Raises errors of the part."""
        queue = AttemptQueue(self._worker.attempts, self._concurrent)
        self._in_progress.clear()
        while True:
            while item := queue.begin_next():
                task = group.create_task(self._answer(item, queue, group))
                self._live.add(task)
                task.add_done_callback(self._ended)
            is_full = bool(queue) or len(self._live) >= self._held
            self._report(is_full=is_full)
            if is_full:
                await asyncio.wait(self._live, return_when=asyncio.FIRST_COMPLETED)
                continue
            if self._live:
                await asyncio.sleep(self._worker.pace.take_gather_s)
            items = await self._worker.attempts.take(
                min(self._take_limit, self._held - len(self._live))
            )
            self._in_progress.update((item.sequence, item.message) for item in items)
            queue.add(items)

    def _report(self, *, is_full: bool) -> None:
        self._worker.reporter.waits_for(self._activity(len(self._live), is_full))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._live.discard(task)
        self._report(is_full=False)

    async def _answer(self, item: WorkItem, queue: AttemptQueue, group: asyncio.TaskGroup) -> None:
        attempts, message = self._worker.attempts, item.message
        was_attempted_before = attempts.was_attempted_before(item)
        handler = self._handlers[type(message)]
        outcome = await attempts.outcome_of(
            item,
            lambda: handler.work(message, item),
            lambda reason: handler.on_failure(message, reason, attempts.count(item)),
        )
        if was_attempted_before:
            await self._hand_in(item, outcome, gather_s=0.0)
            queue.ended(item)
        else:
            queue.ended(item)
            group.create_task(self._hand_in(item, outcome))

    async def _hand_in(
        self, item: WorkItem, outcome: Outcome, *, gather_s: float | None = None
    ) -> None:
        """Write the outcome of an item, or its dead letter if the journal cannot hold it."""
        self._in_progress.pop(item.sequence, None)
        if self._is_urgent(item.message, tuple(self._in_progress.values())):
            gather_s = self._worker.pace.urgent_gather_s
        if item.retry_of and not self._writes_retried:
            outcome = [each for each in outcome if isinstance(each, LetterAnswered)]
        try:
            await self._worker.hand_in(item, outcome, gather_s=gather_s)
        except ContractError as error:
            attempts, handler = self._worker.attempts, self._handlers[type(item.message)]
            outputs = handler.on_failure(item.message, str(error), attempts.count(item))
            await self._worker.hand_in(item, attempts.dead_letter(item, str(error), outputs))
