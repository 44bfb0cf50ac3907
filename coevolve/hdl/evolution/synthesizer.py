"""The synthesizer part of runs on designs: turns signals into candidates, by enumeration.

Promises: a signal is finished in the same transaction that adds what came of it, so each is settled
exactly once whatever is killed. There is no model, so there is none to swap, and an answer takes
too little for signals to expire or for a pause to keep them.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

from coevolve.hdl.evolution.enumeration import Enumeration
from coevolve.journal.codec import decode_as
from coevolve.journal.mailbox import Mailbox
from coevolve.journal.paging import whole_topic
from coevolve.run.standing import Standing
from coevolve.run.stopping import unless_stopped
from protocols.config import RunConfig
from protocols.control import PartStatus
from protocols.design_evolution import DesignCandidate, DesignVariant
from protocols.evolution import Signal, SignalSettled
from protocols.interfaces import Reader, Store
from protocols.journal import Message

NAME = "enumeration"
"""What candidates carry as their synthesizer."""

TAKE_LIMIT = 64
TAKE_WAIT_S = 30.0


class DesignSynthesizer:
    """A `protocols.interfaces.Part`: answers signals in the order in which they come."""

    def __init__(
        self, config: RunConfig, *, store: Store, reader: Reader, enumeration: Enumeration
    ) -> None:
        self._config = config
        self._store = store
        self._reader = reader
        self._enumeration = enumeration
        self._standing = Standing("synthesizer")
        self._stopping = asyncio.Event()
        self._mailbox: Mailbox | None = None

    async def run(self) -> None:
        """Answer signals until stopped; all that is known comes from the journal."""
        await unless_stopped(self._stopping, self._work())

    async def stop(self) -> None:
        """Make ``run`` return; signals in hand stay open."""
        self._stopping.set()

    def status(self) -> PartStatus:
        """Say what the part is doing."""
        return self._standing.report(len(self._mailbox.held) if self._mailbox else 0)

    def cpu_s(self) -> float:
        """Return 0: no model is asked."""
        return 0.0

    async def _work(self) -> None:
        self._mailbox = mailbox = Mailbox(
            self._store,
            consumer="synthesizer",
            topics=("signal",),
            member="synthesizer",
            lease_s=self._config.store.lease_s,
        )
        deliveries = await mailbox.take(TAKE_LIMIT, 0.0)
        variants: Counter[str] = Counter()
        async for record in whole_topic(self._reader, "design_candidate"):
            variants.update(_variants([decode_as(record, DesignCandidate)]))
        while True:
            for sequence, signal in deliveries:
                assert isinstance(signal, Signal)
                candidates = await self._candidates(signal, variants)
                await mailbox.complete((sequence,), _answer(signal, candidates))
                variants.update(_variants(candidates))
                self._standing.done += 1
            self._standing.waits_for("signals")
            deliveries = await mailbox.take(TAKE_LIMIT, TAKE_WAIT_S)

    async def _candidates(self, signal: Signal, variants: Counter[str]) -> list[DesignCandidate]:
        self._standing.policy_version = max(self._standing.policy_version, signal.policy_version)
        return [
            DesignCandidate(
                candidate_id=f"{signal.signal_id}-{number}",
                signal_id=signal.signal_id,
                synthesizer=NAME,
                change=change,
                policy_version=signal.policy_version,
            )
            for number, change in enumerate(await self._enumeration.changes(signal, variants))
        ]


def _variants(candidates: Sequence[DesignCandidate]) -> list[str]:
    """Return the design of each variant."""
    changes = [each.change for each in candidates]
    return [change.design for change in changes if isinstance(change, DesignVariant)]


def _answer(signal: Signal, candidates: Sequence[DesignCandidate]) -> tuple[Message, ...]:
    settled = SignalSettled(
        signal_id=signal.signal_id,
        kind=signal.kind,
        outcome="synthesized" if candidates else "nothing_found",
        reason="",
        synthesizer=NAME,
        candidates=len(candidates),
        simulator_calls=0,
    )
    return *candidates, settled
