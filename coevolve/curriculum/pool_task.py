"""One task of the pool: the policy's results on it, and its weight.

`coevolve.curriculum.task_pool` explains both.
"""

from dataclasses import dataclass
from typing import Literal

FADING = 0.5
"""Factor of each visit on the weight of all earlier evidence."""

UNSOLVED = 0.5
"""Value of imitating the reference of an unsolved task, before the first visit."""

NEW = 4.0
"""Factor on the weight of a task without visits."""

Life = Literal["waiting", "live", "retired"]


@dataclass(slots=True)
class PoolTask:
    """One task of the pool."""

    task_id: str
    is_synthesized: bool
    life: Life = "live"

    successes: float = 0.0
    """Weighted count of successes, older ones counting less; likewise ``failures``."""

    failures: float = 0.0
    is_solved: bool = False
    """Whether any rollout or probe ever succeeded."""

    is_read: bool = False
    """Whether a reader confirmed that the instructions ask for the reference."""

    visits: int = 0
    """Number of visits since the task became live or live again; likewise ``mastered``."""

    mastered: int = 0
    """Number of latest consecutive visits in which every rollout succeeded."""

    def visited(self, successes: int, rollouts: int) -> None:
        """Add the outcome of one group with at least one rollout."""
        self.successes = FADING * self.successes + successes
        self.failures = FADING * self.failures + rollouts - successes
        self.is_solved = self.is_solved or successes > 0
        self.visits += 1
        self.mastered = self.mastered + 1 if successes == rollouts else 0

    @property
    def is_confirmed(self) -> bool:
        """Whether the reference may be imitated: it was given, read, or the policy reached it."""
        return not self.is_synthesized or self.is_read or self.is_solved

    def weight(self, *, imitates: bool) -> float:
        """Return the weight; ``imitates`` says whether the learner imitates references."""
        won, lost = 1.0 + self.successes, 1.0 + self.failures
        learnability = 4.0 * won * lost / ((won + lost) * (won + lost + 1.0))
        is_shown = imitates and self.is_confirmed and not self.is_solved
        imitation = UNSOLVED * 0.5**self.visits if is_shown else 0.0
        novelty = 1.0 / (1 + self.visits) if self.visits else NEW
        return (learnability + imitation) * novelty
