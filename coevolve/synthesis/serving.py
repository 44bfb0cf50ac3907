"""A synthesizer model in service, with a circuit breaker.

After a failure the model is not trusted. Before another signal, it must pass its own check, after a
pause that doubles with every consecutive failure. Then one signal at a time is tried until one
succeeds. A dead endpoint thus uses up no signals and gets few requests, and a recovered one is in
use again within one pause. After `REST_AFTER` failures in a row the journal says that the model
rests, and why; another record says when it answers again.

Any error of the model's work is such a failure, whether the model does not answer, answers in
another form, or its answer makes the work raise something unexpected.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import structlog

from coevolve.journal.mailbox import Appender
from coevolve.parts.attempts import reason_of
from coevolve.parts.status import StatusReporter
from protocols.errors import CoevolveError, DeliveryError, GeneratorError, JournalError
from protocols.evolution import ModelAnswers, ModelRests
from protocols.interfaces import Synthesizer
from protocols.synthesizers import SynthesizerModel

REST_AFTER = 3
"""Failures in a row after which the journal says that the model rests."""

FIRST_PAUSE_S = 1.0

NOT_THE_MODELS = (JournalError, DeliveryError)
"""Errors that end the part's work: it starts again, or cannot work."""

OpenModel = Callable[[SynthesizerModel], Synthesizer]

log = structlog.get_logger()


class ServedModel:
    """One model, with the state of its circuit breaker."""

    def __init__(
        self,
        model: SynthesizerModel,
        open_model: OpenModel,
        standing: StatusReporter,
        append: Appender,
        *,
        longest_pause_s: float,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        """Wrap a model that is opened later; its failures are reported to ``standing``.

        ``append`` writes to the journal that it rests, and that it answers again.
        """
        self._append = append
        self._model = model
        self._open_model = open_model
        self._reporter = standing
        self._first_pause_s = first_pause_s
        self._longest_pause_s = longest_pause_s
        self._synthesizer: Synthesizer | None = None
        self._users = 0
        self._retired = False
        self._broken = False
        self._ended_cpu_s = 0.0
        self._failures = 0
        self._checked_after = -1
        self.rests = False
        """Whether the journal says that the model rests."""

    @property
    def name(self) -> str:
        """Name that its candidates carry; empty while it is not open."""
        return self._synthesizer.name if self._synthesizer is not None else ""

    @property
    def failures(self) -> int:
        """Number of consecutive failures."""
        return self._failures

    @property
    def trusted(self) -> bool:
        """Whether it has passed its check since its last failure, or since its creation."""
        return self._checked_after == self._failures

    def at_most(self, concurrent: int) -> int:
        """Return how many of ``concurrent`` signals it may process at a time."""
        return 1 if self._failures else concurrent

    async def check(self) -> None:
        """Open the model if necessary, and verify that it answers.

        Raises any error of opening or of the check.
        """
        if self._broken:
            await self.close()
        if self._synthesizer is None:
            self._synthesizer = self._open_model(self._model)
        await self._synthesizer.check()
        self._checked_after = self._failures

    async def restore(self) -> None:
        """Check the model repeatedly, with pauses, until it is trusted."""
        while not self.trusted:
            await asyncio.sleep(self._pause_s())
            try:
                await self.check()
            except NOT_THE_MODELS:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a model's server does
                await self.failed(error, self._failures)

    async def failed(self, error: Exception, began_after: int) -> None:
        """Count a failure of work that was started when the model had failed ``began_after`` times.

        Concurrent failures count once.
        """
        reason = reason_of(error)
        self._reporter.last_error = reason
        unexpected = None if isinstance(error, CoevolveError) else error
        log.warning("synthesizer_failed", synthesizer=self.name, reason=reason, exc_info=unexpected)
        self._broken = self._broken or isinstance(error, GeneratorError)
        if began_after == self._failures:
            self._failures += 1
        if self._failures >= REST_AFTER and not self.rests:
            self.rests = True
            await self._append(
                (ModelRests(synthesizer=self.name, failures=self._failures, reason=reason),)
            )

    async def answered(self) -> None:
        """Trust the model again and reset its failures."""
        self._failures = self._checked_after = 0
        if self.rests:
            self.rests = False
            await self._append((ModelAnswers(synthesizer=self.name),))

    @asynccontextmanager
    async def used(self) -> AsyncGenerator[Synthesizer]:
        """Lend the open model; a model retired meanwhile stays open until the last user is done."""
        assert self._synthesizer is not None
        self._users += 1
        try:
            yield self._synthesizer
        finally:
            self._users -= 1
            if self._retired and not self._users:
                await self.close()

    async def retire(self) -> None:
        """Close the model as soon as it has no users."""
        self._retired = True
        if not self._users:
            await self.close()

    async def close(self) -> None:
        self._broken = False
        if self._synthesizer is not None:
            synthesizer, self._synthesizer = self._synthesizer, None
            self._ended_cpu_s += synthesizer.cpu_s()
            await synthesizer.close()

    def cpu_s(self) -> float:
        """Return the CPU seconds that the model used in this process."""
        running_s = self._synthesizer.cpu_s() if self._synthesizer is not None else 0.0
        return self._ended_cpu_s + running_s

    def _pause_s(self) -> float:
        """Return the pause before the next check; 0 before the first check."""
        if not self._failures:
            return 0.0
        return min(self._longest_pause_s, self._first_pause_s * 2 ** (self._failures - 1))
