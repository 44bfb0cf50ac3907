"""Records the calls of synthesizer and teacher models, and enforces budgets.

Guarantees: a recorded call is never made again for the same signal and model. The maximum cost of
calls in flight is reserved, so concurrent calls cannot exceed a budget together. A restarted
process continues from the run's earlier counts.

Not guaranteed: a process does not know the calls in flight in other processes. It counts them once
they are recorded.
"""

import asyncio
import heapq
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from coevolve.journal.codec import CALLS_BY_SIGNAL, decode_as, topic_of
from coevolve.journal.mailbox import Appender
from coevolve.journal.paging import PAGE
from coevolve.llm.call_totals import call_snapshots
from protocols.errors import OverBudgetError
from protocols.evolution import CallFailed, CallKind, ModelCall, SignalKind
from protocols.evolution_config import SynthesizerConfig
from protocols.interfaces import Reader

MAX_CALLS = 1_000_000
"""Maximum calls of one signal; far above any real number."""

ROUNDING = 1e-9
"""Tolerance for rounding errors, because costs are repeatedly added and subtracted."""

IN_FLIGHT_S = 600.0
"""Seconds that a call waits for calls in flight to use less than they reserved."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limits for the calls of one purpose in the whole run; 0 means no limit."""

    section: str
    """Section of the run file, for messages."""

    max_tokens: int = 0
    """Maximum prompt and answer tokens."""

    max_cost_usd: float = 0.0
    max_tokens_by_kind: Mapping[SignalKind, int] = field(default_factory=dict[SignalKind, int])
    teaches: bool = False
    """Whether the budget is a teacher's; a teacher's calls are counted separately."""

    @classmethod
    def of_synthesizer(cls, config: SynthesizerConfig) -> Self:
        """Return the budget of synthesis and of the judge."""
        return cls(
            section="synthesizer",
            max_tokens=config.max_tokens,
            max_cost_usd=config.max_cost_usd,
            max_tokens_by_kind=config.max_tokens_by_kind,
        )


class Ledger:
    """What the run's calls have used, what calls in flight have reserved, and what is left.

    Synthesizer and judge share one ledger; a teacher has another.
    """

    def __init__(self, budget: Budget, reader: Reader) -> None:
        self._reader = reader
        self._teaches = budget.teaches
        self._limited = bool(budget.max_tokens or budget.max_cost_usd or budget.max_tokens_by_kind)
        self._folded = 0
        self._ahead: set[int] = set()
        self._tokens = _Account(f"{budget.section}.max_tokens", budget.max_tokens)
        self._cost = _Account(f"{budget.section}.max_cost_usd", budget.max_cost_usd)
        self._tokens_by_kind = {
            kind: _Account(f"{budget.section}.max_tokens_by_kind.{kind}", limit)
            for kind, limit in budget.max_tokens_by_kind.items()
        }
        self._released = asyncio.Condition()

    async def reserve(self, kind: CallKind, tokens: int, cost_usd: float) -> None:
        """Reserve the maximum that a call may use; wait if only calls in flight block it.

        Raises OverBudgetError if the call exceeds the budget even without calls in flight, or if
        these do not end within `IN_FLIGHT_S`.
        """
        wanted = self._amounts(kind, tokens, cost_usd)
        async with self._released:
            with suppress(TimeoutError):
                async with asyncio.timeout(IN_FLIGHT_S):
                    while not await self._has_room(wanted):
                        await self._released.wait()
            for account, amount in wanted:
                account.refuse_beyond(amount, in_flight=True)
            for account, amount in wanted:
                account.reserved += amount

    async def release(self, kind: CallKind, tokens: int, cost_usd: float) -> None:
        """Return a reservation."""
        async with self._released:
            for account, amount in self._amounts(kind, tokens, cost_usd):
                account.reserved -= amount
            self._released.notify_all()

    def note(self, sequence: int, call: ModelCall) -> None:
        if sequence > self._folded:
            self._ahead.add(sequence)
            self._count(call)

    async def _has_room(self, wanted: Sequence[tuple["_Account", float]]) -> bool:
        """Return whether reservations leave room; raise if recorded calls leave none."""
        if self._limited:
            await self._fold()
        for account, amount in wanted:
            account.refuse_beyond(amount, in_flight=False)
        return all(account.room(in_flight=True) >= amount for account, amount in wanted)

    async def _fold(self) -> None:
        """Count the calls recorded since the last time, including those of other processes."""
        await self._restore()
        while page := await self._reader.scan(topic_of(ModelCall), after=self._folded, limit=PAGE):
            for record in page:
                if record.sequence in self._ahead:
                    self._ahead.discard(record.sequence)
                else:
                    self._count(decode_as(record, ModelCall))
            self._folded = page[-1].sequence

    async def _restore(self) -> None:
        """Count anew from the newest snapshot if it goes beyond what was counted.

        The journal may have dropped calls that are in it.
        """
        totals, through = await call_snapshots(self._reader).restore()
        if through <= self._folded:
            return
        self._folded = through
        self._ahead.clear()
        for account in (self._tokens, self._cost, *self._tokens_by_kind.values()):
            account.spent = 0.0
        for kind, usage in (totals.teachers if self._teaches else totals.others).items():
            self._spend(kind, usage.tokens, usage.cost_usd)

    def _count(self, call: ModelCall) -> None:
        if (call.purpose == "teach") == self._teaches:
            self._spend(call.kind, call.prompt_tokens + call.answer_tokens, call.cost_usd)

    def _spend(self, kind: CallKind, tokens: int, cost_usd: float) -> None:
        for account, amount in self._amounts(kind, tokens, cost_usd):
            account.spent += amount

    def _amounts(
        self, kind: CallKind, tokens: int, cost_usd: float
    ) -> list[tuple["_Account", float]]:
        wanted = [(self._tokens, float(tokens)), (self._cost, cost_usd)]
        if kind in self._tokens_by_kind:
            wanted.append((self._tokens_by_kind[kind], float(tokens)))
        return wanted


class _Account:
    """One budget."""

    def __init__(self, setting: str, limit: float) -> None:
        """Enforce ``limit``; 0 means none."""
        self._setting = setting
        self._limit = limit
        self.spent = 0.0
        self.reserved = 0.0

    def room(self, *, in_flight: bool) -> float:
        """Return what is left; with ``in_flight``, also subtract the reserved amounts."""
        if not self._limit:
            return math.inf
        taken = self.spent + (self.reserved if in_flight else 0.0)
        return self._limit - taken + ROUNDING

    def refuse_beyond(self, amount: float, *, in_flight: bool) -> None:
        """Raise OverBudgetError if ``amount`` exceeds what is left."""
        if self.room(in_flight=in_flight) < amount:
            raise OverBudgetError(
                f"{self._setting}: the limit of the run is {self._limit:g}; {self.spent:g} are "
                f"used, calls in flight reserve {self.reserved:g} and the next one needs "
                f"{amount:g}. Start a run with a higher limit, or lower its max_answer_tokens"
            )


class JournalCallLog:
    """A `protocols.interfaces.CallLog` for one signal, stored in the journal."""

    def __init__(
        self,
        signal_id: str,
        kind: CallKind,
        synthesizer: str,
        *,
        ledger: Ledger,
        reader: Reader,
        append: Appender,
    ) -> None:
        """Use the recorded calls of ``synthesizer`` in any version, not those of other models."""
        self._signal_id = signal_id
        self._kind: CallKind = kind
        self._synthesizer = synthesizer
        self._ledger = ledger
        self._reader = reader
        self._append = append
        self._recorded: dict[int, ModelCall] | None = None
        self._reading = asyncio.Lock()
        self._tokens: list[int] = []
        self._costs: list[float] = []

    async def recorded(self, ordinal: int) -> ModelCall | None:
        async with self._reading:
            if self._recorded is None:
                self._recorded = await recorded_calls(
                    self._reader, self._signal_id, self._synthesizer
                )
        return self._recorded.get(ordinal)

    async def allow(self, prompt_tokens: int, answer_tokens: int, cost_usd: float) -> None:
        tokens = prompt_tokens + answer_tokens
        await self._ledger.reserve(self._kind, tokens, cost_usd)
        heapq.heappush(self._tokens, tokens)
        heapq.heappush(self._costs, cost_usd)

    async def note(self, call: ModelCall) -> None:
        (sequence,) = await self._append((call,))
        self._ledger.note(sequence, call)
        await self._release_one()

    async def failed(self, call: CallFailed) -> None:
        await self._append((call,))
        await self._release_one()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        """Release the reservations of calls that were never noted."""
        while self._tokens:
            await self._release_one()

    async def _release_one(self) -> None:
        """Release the smallest reservation; whichever call ended, enough remains."""
        if self._tokens:
            tokens, cost_usd = heapq.heappop(self._tokens), heapq.heappop(self._costs)
            await self._ledger.release(self._kind, tokens, cost_usd)


async def recorded_calls(reader: Reader, signal_id: str, synthesizer: str) -> dict[int, ModelCall]:
    """Return the calls to ``synthesizer``, of any version, for a signal, by ordinal."""
    found = await reader.find(CALLS_BY_SIGNAL, signal_id, limit=MAX_CALLS)
    calls = [decode_as(each, ModelCall) for each in found]
    asked = _without_version(synthesizer)
    return {call.ordinal: call for call in calls if _without_version(call.model) == asked}


def _without_version(name: str) -> str:
    """Return a synthesizer's name without the policy's version: ``policy`` of ``policy@17``."""
    return name.split("@", maxsplit=1)[0]
