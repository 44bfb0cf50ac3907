"""Processes one signal: its brief, its synthesis, and its end."""

import asyncio
from typing import Literal

import structlog

from coevolve.journal.mailbox import Appender
from coevolve.llm.recorded_calls import Budget, JournalCallLog, Ledger
from coevolve.parts.status import StatusReporter
from coevolve.synthesis.arms import ArmBriefs
from coevolve.synthesis.backlog import Waiting
from coevolve.synthesis.serving import ServedModel
from protocols.config import RunConfig
from protocols.errors import LeakError, OverBudgetError, SimulatorError
from protocols.evolution import SignalSettled
from protocols.interfaces import Reader, Synthesizer
from protocols.journal import Message
from protocols.synthesis import Brief, Synthesis

RETRY_PAUSE_S = 0.5
"""Pause before the second attempt at a signal; it doubles with each further attempt."""

log = structlog.get_logger()


class SynthesisWorker:
    """Processes signals."""

    def __init__(
        self,
        config: RunConfig,
        *,
        reader: Reader,
        append: Appender,
        briefs: ArmBriefs,
        standing: StatusReporter,
    ) -> None:
        self._tries = config.rollout.tries
        self._reader = reader
        self._append = append
        self._briefs = briefs
        self._reporter = standing
        self._ledger = Ledger(Budget.of_synthesizer(config.synthesizer), reader)

    async def settle(self, waiting: Waiting, served: ServedModel) -> tuple[Message, ...]:
        """Return the messages that result from a signal, its `SignalSettled` last.

        Raises whatever the model's work raises.
        """
        async with served.used() as synthesizer:
            name = synthesizer.name
            try:
                synthesis = await self._synthesis(waiting, synthesizer, name)
            except (SimulatorError, LeakError) as error:
                await served.answered()
                return (self.failure(waiting, name, str(error)),)
            except OverBudgetError as error:
                return (without_synthesis(waiting, "over_budget", str(error), name),)
        await served.answered()
        made = (*synthesis.explorations, *synthesis.candidates)
        # A policy may have changed to a newer version meanwhile; its candidates carry the version.
        name = made[-1].synthesizer if made else name
        return (*made, _end_of(waiting, synthesis, name))

    async def _synthesis(self, waiting: Waiting, synthesizer: Synthesizer, name: str) -> Synthesis:
        """Synthesize; after a simulator's failure, retry with the calls already made."""
        brief = await self._briefs.brief(waiting.signal, waiting.sequence)
        for attempt in range(self._tries - 1):
            try:
                return await self._attempt(brief, synthesizer, name)
            except SimulatorError as error:
                self._reporter.last_error = str(error)
                log.warning("simulator_failed", signal=brief.signal_id, reason=str(error))
                await asyncio.sleep(RETRY_PAUSE_S * 2**attempt)
        return await self._attempt(brief, synthesizer, name)

    async def _attempt(self, brief: Brief, synthesizer: Synthesizer, name: str) -> Synthesis:
        async with JournalCallLog(
            brief.signal_id,
            brief.kind,
            name,
            ledger=self._ledger,
            reader=self._reader,
            append=self._append,
        ) as calls:
            synthesis = await synthesizer.synthesize(brief, calls)
        return await self._briefs.practising(brief, synthesis)

    def failure(self, waiting: Waiting, name: str, reason: str) -> SignalSettled:
        """Return the end of a signal that cannot be synthesized."""
        self._reporter.last_error = reason
        log.warning("signal_failed", signal=waiting.signal.signal_id, reason=reason)
        return without_synthesis(waiting, "failed", reason, name)


def without_synthesis(
    waiting: Waiting,
    outcome: Literal["expired", "over_budget", "failed"],
    reason: str,
    synthesizer: str,
) -> SignalSettled:
    """Return the end of a signal without any result."""
    return SignalSettled(
        signal_id=waiting.signal.signal_id,
        kind=waiting.signal.kind,
        outcome=outcome,
        reason=reason,
        synthesizer=synthesizer,
        candidates=0,
        simulator_calls=0,
    )


def _end_of(waiting: Waiting, synthesis: Synthesis, synthesizer: str) -> SignalSettled:
    return SignalSettled(
        signal_id=waiting.signal.signal_id,
        kind=waiting.signal.kind,
        outcome="synthesized" if synthesis.candidates else "nothing_found",
        reason="",
        synthesizer=synthesizer,
        candidates=len(synthesis.candidates),
        simulator_calls=synthesis.simulator_calls,
    )
