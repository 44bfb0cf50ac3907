"""A model's second opinion of a candidate: logged beside the machine's verdict, never decisive."""

from typing import Protocol

from protocols.evolution import NO_OPINION, Candidate, Opinion


class Judge(Protocol):
    """Who is asked what it thinks of a candidate."""

    async def opinion(self, candidate: Candidate) -> Opinion:
        """Return what the model says, `NO_OPINION` where it cannot be asked or says nothing."""
        ...


class NoJudge:
    """Nobody is asked."""

    async def opinion(self, candidate: Candidate) -> Opinion:
        """Return no opinion."""
        return NO_OPINION
