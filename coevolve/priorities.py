"""Exact prioritized sampling by rejection: no tree to keep, and a new weight costs one store.

An index is proposed uniformly and kept with probability weight / bound, where the bound is at least
the largest weight. What is kept is distributed exactly as the weights say, however loose the bound
is; a loose one only costs proposals, bound / mean of them for each draw. Cap the weights: with a
heavy tail (one weight a thousand times the mean) this is the wrong method.
"""

import numpy as np
from numpy.typing import NDArray

SPARE = 1.2
"""Proposals beyond the expected number, so that a second round is rare."""

LEAST_ACCEPTED = 0.25
"""Below this share of kept proposals the bound is made tight again."""


class PrioritySampler:
    """Weights of the indices 0..n-1, and draws in proportion to them."""

    def __init__(self, weights: NDArray[np.float64]) -> None:
        """Copy ``weights``, all finite and not negative."""
        _refuse_unusable(weights)
        self._weights = weights.astype(np.float64)
        self._tighten()

    def __len__(self) -> int:
        return len(self._weights)

    def update(self, indices: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
        """Give ``indices``, each named once, new weights."""
        _refuse_unusable(weights)
        self._total += float(weights.sum() - self._weights[indices].sum())
        self._weights[indices] = weights
        self._bound = max(self._bound, float(weights.max(initial=0.0)))

    def draw(self, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Return ``count`` independent indices, repetitions included.

        Raises ValueError where no weight is positive.
        """
        drawn = np.empty(0, dtype=np.int64)
        while len(drawn) < count:
            share = self._acceptance()
            proposals = int((count - len(drawn)) / share * SPARE) + 8
            proposed = generator.integers(len(self._weights), size=proposals)
            kept = proposed[generator.random(proposals) * self._bound < self._weights[proposed]]
            drawn = np.concatenate((drawn, kept)) if len(drawn) else kept
        return drawn[:count]

    def _acceptance(self) -> float:
        """Return the expected share of proposals that are kept, made large where it can be."""
        if self._total < LEAST_ACCEPTED * self._bound * len(self._weights):
            self._tighten()
        if not self._total > 0.0:
            raise ValueError("a draw needs at least one positive weight, and all are 0")
        return self._total / (self._bound * len(self._weights))

    def _tighten(self) -> None:
        self._bound = float(self._weights.max(initial=0.0))
        self._total = float(self._weights.sum())


def _refuse_unusable(weights: NDArray[np.float64]) -> None:
    if not np.all(np.isfinite(weights)) or np.any(weights < 0.0):
        raise ValueError("weights need to be finite and not negative")
