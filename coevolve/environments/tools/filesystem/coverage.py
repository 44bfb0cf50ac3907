"""Prefers errands that are not covered yet, and gives up what cannot be described.

The weight of a chain of tools is s ** 3 / (1 + described), where s = (1 + described) / (2 + tried)
is the share of its explorations that became turns of candidates, smoothed. What is described easily
is thus wanted less and less, what was never tried is tried, and what failed twice is all but left.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from coevolve.environments.tools.filesystem.explorer import Chain
from coevolve.environments.tools.synthesis.brief import Precedent

PLENTY = 2.0
"""Times the mean over what was described at all: beyond it a focus has been served enough."""


class Coverage:
    """What is known of chains."""

    def __init__(self, precedents: Iterable[Precedent] = ()) -> None:
        self._known = {each.tools: each for each in precedents}
        described = [each.described for each in self._known.values() if each.described]
        self._plenty = PLENTY * sum(described) / len(described) if described else np.inf

    def weight(self, chain: Chain) -> float:
        """Return how much another errand of this kind is worth, 0..1."""
        known = self._known.get(chain)
        described = known.described if known else 0
        tried = max(known.explored, described) if known else 0
        return ((1 + described) / (2 + tried)) ** 3 / (1 + described)

    def pick(self, rng: np.random.Generator, chains: Sequence[Chain]) -> Chain:
        """Return one of ``chains``, drawn by weight."""
        weights = np.array([self.weight(chain) for chain in chains])
        return chains[int(rng.choice(len(chains), p=weights / weights.sum()))]

    def wants(self, rng: np.random.Generator, chain: Chain) -> bool:
        """Draw whether a focus is followed: seldomer, the more there is plenty of it already."""
        known = self._known.get(chain)
        return known is None or rng.random() * known.described < self._plenty
