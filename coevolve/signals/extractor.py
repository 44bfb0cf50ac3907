"""The signal extractor: turns rollouts into group summaries and signals.

Guarantees:

- A group's summary and signals enter the journal in the transaction that finishes its rollouts, so
  each group is judged exactly once even if processes are killed.
- The signals depend only on the journal's order. A part that is rebuilt from the earlier summaries
  and signals, or from a snapshot and those after it, gives the same signals. Rollouts are read
  once, when they arrive.
- Failed rollouts are only counted.
- A group that raises errors, or kills the process, at each of several attempts has no summary
  (`coevolve.parts.units`); the others are judged.

The environment defines how a group is summed up and which rules apply, with an `Observer`.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

import structlog

from coevolve.journal.codec import ROLLOUTS_BY_GROUP, decode, topics_of
from coevolve.journal.mailbox import IDLE_WAIT_S, Mailbox
from coevolve.journal.snapshots import Snapshots
from coevolve.parts.status import StatusReporter
from coevolve.parts.stopping import unless_stopped
from coevolve.parts.units import Unit, Units
from coevolve.signals.groups import CompleteGroup, OpenGroups
from protocols.config import RunConfig
from protocols.control import PartStatus
from protocols.evolution import EnvironmentRecord, GroupSummary, Signal
from protocols.interfaces import Reader, Store
from protocols.journal import Message
from protocols.rollouts import FailedRollout, Rollout

TAKE_LIMIT = 256

GROUP_GATHER_S = 2.0
"""Delay of a group while rollouts arrive, so that one take serves several groups."""

log = structlog.get_logger()


class Observer(Protocol):
    """Sums up and judges complete groups; keeps the state of earlier ones.

    If it is also a `coevolve.journal.snapshots.Piece`, it is recalled from a snapshot.
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


class SignalExtractor:
    """A `protocols.interfaces.Part` that detects the policy's weaknesses."""

    def __init__(
        self,
        config: RunConfig,
        *,
        store: Store,
        reader: Reader,
        takes: Sequence[type[Message]],
        open_observer: Callable[[], Observer],
    ) -> None:
        """``open_observer`` creates an observer without state."""
        self._topics = topics_of(*takes)
        self._config = config
        self._store = store
        self._reader = reader
        self._open_observer = open_observer
        self._reporter = StatusReporter("signals")
        self._stopping = asyncio.Event()
        self._mailbox: Mailbox | None = None
        self._units: Units | None = None
        self._snapshots: Snapshots[_Recalled] | None = None

    async def run(self) -> None:
        """Judge groups until stopped.

        Each call starts from the journal, so it can be repeated after an error.
        """
        await unless_stopped(self._stopping, self._work())
        if self._units is not None:
            await self._units.release()

    async def stop(self) -> None:
        """Make ``run`` return; incomplete groups stay unfinished."""
        self._stopping.set()

    def status(self) -> PartStatus:
        return self._reporter.report(len(self._mailbox.held) if self._mailbox else 0)

    async def _work(self) -> None:
        self._mailbox = mailbox = Mailbox(
            self._store,
            consumer="signals",
            topics=self._topics,
            member="signals",
            lease_s=self._config.store.lease_s,
        )
        self._units = units = Units(mailbox, self._config, self._reader)
        await mailbox.take_seat()
        self._snapshots = snapshots = Snapshots(
            self._reader,
            "signals",
            self._open_observer().topics,
            lambda: _Recalled(self._open_observer()),
        )
        judged = _Judged(mailbox, units, self._reporter, self._rebuild_observer, snapshots)
        await judged.rebuild()
        open_groups = OpenGroups()
        flowing = False
        while True:
            self._reporter.waits_for("the last rollouts of a group")
            deliveries = await mailbox.take(
                TAKE_LIMIT,
                GROUP_GATHER_S if flowing else IDLE_WAIT_S,
                self._worth_taking(open_groups, flowing),
            )
            flowing = bool(deliveries)
            groups = [
                group
                for each in deliveries
                if (unit := await units.unit(each)) is not None
                and (group := await self._group(unit, open_groups)) is not None
            ]
            if groups:
                await judged.settle(groups)

    async def _group(
        self, unit: Unit, open_groups: OpenGroups
    ) -> tuple[Unit, CompleteGroup] | None:
        """Return the group that a rollout completes, or that is retried; None if there is none."""
        assert self._mailbox is not None
        assert self._units is not None
        message = unit.message
        assert isinstance(message, Rollout | FailedRollout)
        if not unit.letter:
            group = open_groups.add(unit.sequence, message)
            return (Unit(group.sequences[0], message), group) if group else None
        group = await self._group_of(message)
        if group is None:
            reason = f"the journal has dropped rollouts of group {message.group_id}"
            await self._mailbox.complete((unit.sequence,), self._units.given_up(unit, reason))
        return (unit, group) if group else None

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
        return min(TAKE_LIMIT, open_groups.missing(groups, self._config.rollout.group_size))

    async def _rebuild_observer(self) -> Observer:
        """Return an observer with the state from the journal."""
        assert self._snapshots is not None
        self._reporter.waits_for("earlier summaries to be read")
        recalled, _ = await self._snapshots.folded()
        return recalled.observer


class _Recalled(NamedTuple):
    """An observer's state; see `coevolve.journal.snapshots.Folded`."""

    observer: Observer

    @property
    def pieces(self) -> Sequence[object]:
        return self

    def fold(self, message: Message) -> None:
        self.observer.recall(message)


class _Judged:
    """Judges groups in order, and writes the results of several at once."""

    def __init__(
        self,
        mailbox: Mailbox,
        units: Units,
        standing: StatusReporter,
        open_observer: Callable[[], Awaitable[Observer]],
        snapshots: Snapshots[_Recalled],
    ) -> None:
        """``open_observer`` returns an observer with the state from the journal."""
        self._mailbox = mailbox
        self._units = units
        self._reporter = standing
        self._open_observer = open_observer
        self._snapshots = snapshots
        self._sequences: list[int] = []
        self._outputs: list[Message] = []
        self._through = 0
        """Sequence of the last record that was written."""

    async def rebuild(self) -> None:
        """Write the results so far, and take the observer's state from the journal."""
        await self._write()
        self._observer = await self._open_observer()

    async def settle(self, groups: Sequence[tuple[Unit, CompleteGroup]]) -> None:
        """Finish ``groups`` in order, together with their summaries and signals."""
        await self._units.prepare([unit for unit, _ in groups])
        for unit, group in groups:
            suspect = self._units.attempts(unit) > 0
            if suspect:  # it may end the process, and with it what is not written
                await self._write()
            outputs = await self._units.settled(unit, functools.partial(self._judge, group))
            self._outputs += outputs
            self._sequences += (unit.sequence,) if unit.letter else group.sequences
            if suspect:
                await self._write()
        await self._write()
        if snapshots := await self._snapshots.due(self._through):
            await self._mailbox.append(snapshots)

    async def _judge(self, group: CompleteGroup) -> Sequence[Message]:
        try:
            summary, findings = await self._observer.judge(group)
        except Exception:
            await self.rebuild()  # the observer may have counted a part of the group
            raise
        self._reporter.policy_version = max(self._reporter.policy_version, summary.version_max)
        for found in findings:
            if isinstance(found, Signal):
                log.info("signal", kind=found.kind, score=round(found.score, 3), rule=found.rule)
        return (summary, *findings)

    async def _write(self) -> None:
        if self._sequences:
            written = await self._mailbox.complete(self._sequences, self._outputs)
            self._through = max(written, default=self._through)
            self._units.forget(self._sequences)
            self._reporter.done += len(self._sequences)
            self._sequences, self._outputs = [], []
