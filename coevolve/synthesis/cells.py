"""Draws subjects among an environment's cells without a signal's help, for arms to compare with.

``coverage`` knows the space of tasks and nothing of the policy: all cells are alike. ``oracle``
knows the policy, as no run could: it reads how often a cell's held-out task succeeds, and draws a
cell in proportion to what is left to learn.
"""

import random
from collections.abc import Mapping

from coevolve.journal.codec import decode_as, topic_of
from coevolve.journal.paging import PAGE
from coevolve.signals.skill_model import left_to_learn
from protocols.interfaces import Reader
from protocols.learning import Evaluation

NO_SCORES: Mapping[str, float] = {}


class Cells:
    """The cells of a run's environment, and their scores in journal order."""

    def __init__(self, scored_by: Mapping[str, str], *, imitates: bool, reader: Reader) -> None:
        """Take the held-out task of each cell; ``imitates``: whether the learner imitates."""
        self._scored_by = scored_by
        self._imitates = imitates
        self._reader = reader
        self._read = 0
        self._scores: list[tuple[int, Mapping[str, float]]] = []

    def covered(self, rng: random.Random) -> str:
        """Return a cell."""
        return rng.choice(tuple(self._scored_by))

    async def teaching(self, rng: random.Random, before: int) -> str:
        """Return a cell by the newest scores before a journal sequence; any cell without scores."""
        await self._follow()
        known = (scores for sequence, scores in reversed(self._scores) if sequence < before)
        scores = next(known, NO_SCORES)
        weights = [self._left(scores.get(task, 0.5)) for task in self._scored_by.values()]
        return rng.choices(tuple(self._scored_by), weights)[0]

    def _left(self, success: float) -> float:
        # Above 0, so that some cell can be drawn when all are solved.
        return 1e-9 + left_to_learn(success, imitates=self._imitates)

    async def _follow(self) -> None:
        topic = topic_of(Evaluation)
        while page := await self._reader.scan(topic, after=self._read, limit=PAGE):
            for record in page:
                scores = decode_as(record, Evaluation).scores
                self._scores.append((record.sequence, {s.task_id: s.score for s in scores}))
            self._read = page[-1].sequence
