"""The signal extractor: turns rollouts into group summaries and signals.

Guarantees:

- A group's summary and signals enter the journal in the transaction that finishes its rollouts, so
  each group is judged exactly once even if processes are killed.
- The signals depend only on the journal's order. A part that is rebuilt from the earlier summaries
  and signals, or from a snapshot and those after it, gives the same signals. Rollouts are read
  once, when they arrive.
- Failed rollouts are only counted.
- A group that raises errors, or kills the process, at each of several attempts has no summary
  (`coevolve.parts.attempts`); the others are judged.

The environment defines how a group is summed up and which rules apply, with an `Observer`.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import structlog

from coevolve.journal.codec import ROLLOUTS_BY_GROUP, decode
from coevolve.journal.mailbox import IDLE_WAIT_S
from coevolve.journal.snapshots import Snapshots
from coevolve.parts.attempts import WorkItem
from coevolve.parts.context import PartContext
from coevolve.parts.worker import Worker
from coevolve.signals.groups import CompleteGroup, OpenGroups
from protocols.evolution import EnvironmentRecord, GroupSummary, Signal
from protocols.journal import Message
from protocols.rollouts import FailedRollout, Rollout

log = structlog.get_logger()


class Observer(Protocol):
    """Sums up and judges complete groups; keeps the state of earlier ones.

    If it is also a `coevolve.journal.snapshots.Piece`, or has one as ``piece``, it is recalled from
    a snapshot.
    """

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics to recall after a restart, in the journal's order."""
        ...

    def recall(self, message: Message) -> None:
        """Add an earlier summary or signal to the state, without a result."""
        ...

    async def judge(
        self, group: CompleteGroup
    ) -> tuple[GroupSummary, Sequence[Signal | EnvironmentRecord]]:
        """Add a further group; return its summary, its signals and what else is to be recorded."""
        ...


class _Recalled(NamedTuple):
    """An observer's state; see `coevolve.journal.snapshots.Folded`."""

    observer: Observer

    @property
    def pieces(self) -> Sequence[object]:
        return self

    def fold(self, message: Message) -> None:
        self.observer.recall(message)


class SignalExtractor:
    """A `protocols.interfaces.Part` that detects the policy's weaknesses."""

    _snapshots: Snapshots[_Recalled]
    _observer: Observer

    def __init__(self, context: PartContext, open_observer: Callable[[], Observer]) -> None:
        """``open_observer`` creates an observer without state."""
        self._config = context.config
        self._reader = context.reader
        self._open_observer = open_observer
        self._worker = Worker("signals", context)
        self.stop, self.status = self._worker.stop, self._worker.status
        self._finished: list[int] = []
        self._outputs: list[Message] = []
        """What follows from the finished records, and is not written yet."""

        self._through = 0
        """Sequence of the last record that was written."""

    async def run(self) -> None:
        """Judge groups until stopped; incomplete groups stay unfinished.

        Each call starts from the journal, so it can be repeated after an error.
        """
        await self._worker.run(self._work)

    async def _work(self) -> None:
        mailbox = self._worker.mailbox
        await mailbox.take_seat()
        self._finished, self._outputs = [], []
        self._snapshots = Snapshots(
            self._reader,
            "signals",
            self._open_observer().topics,
            lambda: _Recalled(self._open_observer()),
        )
        await self._rebuild()
        open_groups = OpenGroups()
        flowing = False
        while True:
            self._worker.reporter.waits_for("the last rollouts of a group")
            deliveries = await mailbox.take(
                self._worker.pace.take_limit,
                self._worker.pace.take_gather_s if flowing else IDLE_WAIT_S,
                self._worth_taking(open_groups, flowing),
            )
            flowing = bool(deliveries)
            groups = [
                group
                for item in await self._worker.attempts.items(deliveries)
                if (group := await self._group(item, open_groups)) is not None
            ]
            if groups:
                await self._settle(groups)

    async def _group(
        self, item: WorkItem, open_groups: OpenGroups
    ) -> tuple[WorkItem, CompleteGroup] | None:
        """Return the group that a rollout completes, or that is retried; None if there is none."""
        message = item.message
        assert isinstance(message, Rollout | FailedRollout)
        if not item.retry_of:
            group = open_groups.add(item.sequence, message)
            return (WorkItem(group.sequences[0], message), group) if group else None
        group = await self._group_of(message)
        if group is None:
            reason = f"the journal has dropped rollouts of group {message.group_id}"
            await self._worker.hand_in(item, self._worker.attempts.dead_letter(item, reason))
        return (item, group) if group else None

    async def _group_of(self, member: Rollout | FailedRollout) -> CompleteGroup | None:
        """Return the group of a rollout from the journal; None if it is no longer complete."""
        records = await self._reader.find(ROLLOUTS_BY_GROUP, member.group_id)
        members = OpenGroups()
        groups = [
            group
            for record in records
            if isinstance(each := decode(record), Rollout | FailedRollout)
            and (group := members.add(record.sequence, each))
        ]
        return groups[0] if groups else None

    def _worth_taking(self, open_groups: OpenGroups, flowing: bool) -> int:
        """Return how many records to wait for: those of one step, or of the next group."""
        groups = self._config.learner.groups_per_step if flowing else 1
        missing = open_groups.missing(groups, self._config.rollout.group_size)
        return min(self._worker.pace.take_limit, missing)

    async def _settle(self, groups: Sequence[tuple[WorkItem, CompleteGroup]]) -> None:
        """Finish ``groups`` in order, together with their summaries and signals."""
        attempts = self._worker.attempts
        await attempts.prepare([item for item, _ in groups])
        for item, group in groups:
            was_attempted_before = attempts.was_attempted_before(item)
            if was_attempted_before:  # it may end the process, and with it what is not written
                await self._write()
            outputs = await attempts.outcome_of(item, functools.partial(self._judge, group))
            self._outputs += outputs  # not in one line: what was there may be written meanwhile
            self._finished += (item.sequence,) if item.retry_of else group.sequences
            if was_attempted_before:
                await self._write()
        await self._write()
        if snapshots := await self._snapshots.due(self._through):
            await self._worker.mailbox.append(snapshots)

    async def _judge(self, group: CompleteGroup) -> Sequence[Message]:
        try:
            summary, findings = await self._observer.judge(group)
        except Exception:
            await self._rebuild()  # the observer may have counted a part of the group
            raise
        reporter = self._worker.reporter
        reporter.policy_version = max(reporter.policy_version, summary.version_max)
        for found in findings:
            if isinstance(found, Signal):
                log.info("signal", kind=found.kind, score=round(found.score, 3), rule=found.rule)
        return (summary, *findings)

    async def _rebuild(self) -> None:
        """Write the results so far, and take the observer's state from the journal."""
        await self._write()
        self._worker.reporter.waits_for("earlier summaries to be read")
        recalled, _ = await self._snapshots.folded()
        self._observer = recalled.observer

    async def _write(self) -> None:
        """Finish records with what follows from them."""
        if self._finished:
            written = await self._worker.mailbox.complete(self._finished, self._outputs)
            self._through = max(written, default=self._through)
            self._worker.attempts.forget(self._finished)
            self._worker.reporter.done += len(self._finished)
            self._finished, self._outputs = [], []
