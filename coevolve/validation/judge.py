"""A model's second opinion on a candidate, recorded beside the verdict without effect on it."""

from typing import Protocol

from protocols.evolution import NO_OPINION, Candidate, Opinion


class Judge(Protocol):
    """A source of opinions on candidates."""

    async def opinion(self, candidate: Candidate) -> Opinion:
        """Return the model's opinion, or `NO_OPINION` if it cannot be asked or gives none."""
        ...


class NoJudge:
    """Gives no opinion."""

    async def opinion(self, candidate: Candidate) -> Opinion:
        return NO_OPINION
