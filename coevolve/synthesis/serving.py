"""A model in its turn as the synthesizer: opened, doubted, used by several signals, and let go.

A model that fails is doubted: before another signal is tried it has to pass its own check, after a
pause that doubles with every failure in a row, and then one signal at a time is tried until one
goes through. So a dead endpoint uses up no signals and is not hammered, and is back within a pause.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import structlog

from coevolve.parts.status import StatusReporter
from protocols.errors import EndpointError, GeneratorError
from protocols.interfaces import Synthesizer
from protocols.synthesizers import SynthesizerModel

FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 60.0

OpenModel = Callable[[SynthesizerModel], Synthesizer]

log = structlog.get_logger()


class ServedModel:
    """One model, and how far it is trusted to answer."""

    def __init__(
        self,
        model: SynthesizerModel,
        open_model: OpenModel,
        standing: StatusReporter,
        *,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        """Name a model that is yet to be opened; ``standing`` hears of its failures."""
        self._model = model
        self._open_model = open_model
        self._reporter = standing
        self._first_pause_s = first_pause_s
        self._synthesizer: Synthesizer | None = None
        self._users = 0
        self._retired = False
        self._broken = False
        self._ended_cpu_s = 0.0
        self._failures = 0
        self._checked_after = -1

    @property
    def name(self) -> str:
        """What its candidates carry; empty while it is not open."""
        return self._synthesizer.name if self._synthesizer is not None else ""

    @property
    def failures(self) -> int:
        """Failures in a row."""
        return self._failures

    @property
    def trusted(self) -> bool:
        """Whether it passed its check since it failed last, or since it is to be used."""
        return self._checked_after == self._failures

    def at_most(self, concurrent: int) -> int:
        """Return how many of ``concurrent`` signals it may be given at a time."""
        return 1 if self._failures else concurrent

    async def check(self) -> None:
        """Open the model where it is not, and make sure that it answers.

        Raises EndpointError, or whatever else opening raises.
        """
        if self._broken:
            await self.close()
        if self._synthesizer is None:
            self._synthesizer = self._open_model(self._model)
        await self._synthesizer.check()
        self._checked_after = self._failures

    async def restore(self) -> None:
        """Check the model again and again, with pauses, until it is trusted."""
        while not self.trusted:
            await asyncio.sleep(self._pause_s())
            try:
                await self.check()
            except (EndpointError, GeneratorError) as error:
                self.failed(error, self._failures)

    def failed(self, error: EndpointError | GeneratorError, began_after: int) -> None:
        """Doubt the model, after work that was begun when it had failed ``began_after`` times.

        What fails together counts once.
        """
        self._reporter.last_error = str(error)
        log.warning("synthesizer_failed", synthesizer=self.name, reason=str(error))
        self._broken = self._broken or isinstance(error, GeneratorError)
        if began_after == self._failures:
            self._failures += 1

    def answered(self) -> None:
        """Trust the model again."""
        self._failures = self._checked_after = 0

    @asynccontextmanager
    async def used(self) -> AsyncGenerator[Synthesizer]:
        """Lend the open model; one that is retired meanwhile stays open until the end."""
        assert self._synthesizer is not None
        self._users += 1
        try:
            yield self._synthesizer
        finally:
            self._users -= 1
            if self._retired and not self._users:
                await self.close()

    async def retire(self) -> None:
        """Close the model as soon as nobody uses it any more."""
        self._retired = True
        if not self._users:
            await self.close()

    async def close(self) -> None:
        """Let go of the model; one that is not open is left alone."""
        self._broken = False
        if self._synthesizer is not None:
            synthesizer, self._synthesizer = self._synthesizer, None
            self._ended_cpu_s += synthesizer.cpu_s()
            await synthesizer.close()

    def cpu_s(self) -> float:
        """Return the CPU seconds that the model took in this process."""
        running_s = self._synthesizer.cpu_s() if self._synthesizer is not None else 0.0
        return self._ended_cpu_s + running_s

    def _pause_s(self) -> float:
        """Return how long to wait before the next check; the first one is made at once."""
        if not self._failures:
            return 0.0
        return min(MAX_PAUSE_S, self._first_pause_s * 2 ** (self._failures - 1))
