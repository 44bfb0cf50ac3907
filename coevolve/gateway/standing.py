"""The policy as a plain endpoint: each request has a conversation of its own.

Nothing is kept of a request, and nothing of it is trained. A client may talk about anything, from
the beginning or from the middle of a conversation.
"""

import itertools

from coevolve.gateway.messages import Chat, Said
from coevolve.gateway.session import Counts, GatewaySession, Sampling


class StandingSession:
    """A `coevolve.gateway.gateway.Talker` with any number of conversations, several at once."""

    def __init__(self, sampling: Sampling, seed: int) -> None:
        """``seed`` decides what is sampled; each request samples something else."""
        self._sampling = sampling
        self._seed = seed
        self._numbers = itertools.count(1)
        self.said = 0
        self.counts = Counts()

    def check_size(self, body_bytes: int) -> None:
        self._session(0).check_size(body_bytes)

    async def chat(self, chat: Chat, *, is_retry: bool) -> Said:
        session = self._session(next(self._numbers))
        try:
            said = await session.chat(chat, is_retry=is_retry)
        finally:
            await session.end()
        self.said += 1
        return said

    def _session(self, number: int) -> GatewaySession:
        return GatewaySession(f"standing-{number}", self._sampling, self._seed + number)

    async def end(self) -> None:
        """Do nothing: the conversations in flight end with their requests."""
