"""The signal extractor: turns rollouts into group summaries and signals.

Guarantees:

- A group's summary and signals enter the journal in the transaction that finishes its rollouts, so
  each group is judged exactly once even if processes are killed.
- The signals depend only on the journal's order. A part that is rebuilt from the earlier summaries
  and signals gives the same signals. Rollouts are read once, when they arrive.
- Failed rollouts are only counted.

The environment defines how a group is summed up and which rules apply, with an `Observer`.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from coevolve.journal.codec import decode
from coevolve.journal.mailbox import IDLE_WAIT_S, Mailbox
from coevolve.journal.paging import whole_topic
from coevolve.parts.status import StatusReporter
from coevolve.parts.stopping import unless_stopped
from coevolve.signals.groups import CompleteGroup, OpenGroups
from protocols.config import RunConfig
from protocols.control import PartStatus
from protocols.evolution import GroupSummary, Signal
from protocols.interfaces import Reader, Store
from protocols.journal import Message
from protocols.rollouts import FailedRollout, Rollout

TAKE_LIMIT = 256

GROUP_GATHER_S = 2.0
"""Delay of a group while rollouts arrive, so that one take serves several groups."""

log = structlog.get_logger()


class Observer(Protocol):
    """Sums up and judges complete groups; keeps the state of earlier ones."""

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics to recall after a restart, in this order."""
        ...

    def recall(self, message: Message) -> None:
        """Add an earlier summary or signal to the state, without a result."""
        ...

    async def judge(self, group: CompleteGroup) -> tuple[GroupSummary, Sequence[Signal]]:
        """Add a further group; return its summary and its signals."""
        ...


class SignalExtractor:
    """A `protocols.interfaces.Part` that detects the policy's weaknesses."""

    def __init__(
        self,
        config: RunConfig,
        *,
        store: Store,
        reader: Reader,
        open_observer: Callable[[], Observer],
    ) -> None:
        """``open_observer`` creates an observer without state."""
        self._config = config
        self._store = store
        self._reader = reader
        self._open_observer = open_observer
        self._reporter = StatusReporter("signals")
        self._stopping = asyncio.Event()
        self._mailbox: Mailbox | None = None

    async def run(self) -> None:
        """Judge groups until stopped.

        Each call starts from the journal, so it can be repeated after an error.
        """
        await unless_stopped(self._stopping, self._work())

    async def stop(self) -> None:
        """Make ``run`` return; incomplete groups stay unfinished."""
        self._stopping.set()

    def status(self) -> PartStatus:
        """Return the part's current status."""
        return self._reporter.report(len(self._mailbox.held) if self._mailbox else 0)

    async def _work(self) -> None:
        self._mailbox = mailbox = Mailbox(
            self._store,
            consumer="signals",
            topics=("rollout", "failed_rollout"),
            member="signals",
            lease_s=self._config.store.lease_s,
        )
        observer = await self._rebuild_observer()
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
            groups: list[CompleteGroup] = []
            for sequence, message in deliveries:
                assert isinstance(message, Rollout | FailedRollout)
                if group := open_groups.add(sequence, message):
                    groups.append(group)
            if groups:
                await self._settle(mailbox, observer, groups)

    def _worth_taking(self, open_groups: OpenGroups, flowing: bool) -> int:
        """Return how many records to wait for: those of one step, or of the next group."""
        groups = self._config.learner.groups_per_step if flowing else 1
        return min(TAKE_LIMIT, open_groups.missing(groups, self._config.rollout.group_size))

    async def _settle(
        self, mailbox: Mailbox, observer: Observer, groups: Sequence[CompleteGroup]
    ) -> None:
        """Finish ``groups`` in order, together with their summaries and signals."""
        outputs: list[Message] = []
        for group in groups:
            summary, signals = await observer.judge(group)
            outputs += [summary, *signals]
            self._reporter.policy_version = max(self._reporter.policy_version, summary.version_max)
            for signal in signals:
                log.info("signal", kind=signal.kind, score=round(signal.score, 3), rule=signal.rule)
        sequences = [sequence for group in groups for sequence in group.sequences]
        await mailbox.complete(sequences, outputs)
        self._reporter.done += len(sequences)

    async def _rebuild_observer(self) -> Observer:
        """Return an observer with the state from the journal."""
        self._reporter.waits_for("earlier summaries to be read")
        observer = self._open_observer()
        for topic in observer.topics:
            async for record in whole_topic(self._reader, topic):
                observer.recall(decode(record))
        return observer
