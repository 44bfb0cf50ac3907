"""Masks of the tokens that a grammar allowed, for each token of a rollout.

An engine that restricts answers by a grammar samples from the policy's distribution over the
allowed tokens. The policy gradient must use the same distribution. Without the grammar, the
trainer's probabilities would differ from those of sampling, and the gradient would change the
probability of tokens that could never be sampled.

Letters: N tokens that the policy wrote, V vocabulary.
"""

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import torch

from coevolve.engine.grammars import GrammarTable, Indices
from coevolve.learning.losses.credit import written_positions
from coevolve.learning.rows import Conversation, Row, sides


class Constraints:
    """Converts the grammars of rollouts to masks; caches every grammar."""

    def __init__(self, vocabulary: int) -> None:
        """``vocabulary`` is the number of tokens of the model."""
        self._table = GrammarTable(vocabulary)

    def allowed(self, rows: Sequence[Row]) -> torch.Tensor | None:
        """Return a boolean N x V mask of the tokens that were allowed at each written position.

        None if no row is a rollout with a grammar. The N positions follow the rows in order, and in
        each row its written tokens except one at position 0, as in
        `coevolve.learning.scoring.score`.

        Raises GeneratorError if a grammar belongs to another model.
        """
        sampled = sides(rows)
        if all(side.grammar is None for side in sampled):
            return None
        return self._table.allowed(np.concatenate([self._states(side) for side in sampled]))

    def _states(self, side: Conversation) -> Indices:
        """Return the grammar states in which the tokens were chosen, answer by answer."""
        numbered = enumerate(written_positions(side.mask))
        answers = groupby(numbered, key=lambda each: each[1] - each[0])
        paths = [
            self._table.path(
                side.grammar,
                np.array([side.token_ids[position] for _, position in answer], dtype=np.int64),
            )
            for _, answer in answers
        ]
        return np.concatenate(paths) if paths else np.empty(0, dtype=np.int64)
