"""Whether the reader of instructions answers; the journal is told when it rests, and when not."""

from coevolve.journal.codec import topics_of
from coevolve.journal.mailbox import Appender
from protocols.errors import EndpointError
from protocols.evolution import ReaderAnswers, ReaderRests
from protocols.interfaces import Reader

REST_AFTER = 3
"""Failures in a row after which the journal says that the reader rests."""


class ReaderState:
    """Counts the reader's failures in a row; an answer resets them."""

    def __init__(self, append: Appender) -> None:
        self._append = append
        self._failures = 0
        self._rests = False

    async def restore(self, journal: Reader) -> None:
        """Take up what the journal says."""
        last = [await journal.last(topic) for topic in topics_of(ReaderRests, ReaderAnswers)]
        rests, answers = (record.sequence if record else 0 for record in last)
        self._rests = rests > answers

    async def failed(self, error: EndpointError) -> None:
        self._failures += 1
        if self._failures >= REST_AFTER and not self._rests:
            self._rests = True
            await self._append((ReaderRests(failures=self._failures, reason=str(error)),))

    async def answered(self) -> None:
        """Forget the failures."""
        self._failures = 0
        if self._rests:
            self._rests = False
            await self._append((ReaderAnswers(),))
