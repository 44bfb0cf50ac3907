"""What rollouts were allowed to write, token by token.

An engine that keeps answers inside a grammar samples from the policy's distribution over the tokens
that the grammar allows. A policy gradient has to be taken of the same distribution: without the
grammar the trainer's probabilities would not be those that the rollouts were drawn with, and the
gradient would push at words that could never have been said.

Letters: N tokens that the policy wrote, V vocabulary.
"""

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import torch

from coevolve.engine.grammars import GrammarTable, Indices
from coevolve.learning.batch import Row, SampledRow
from coevolve.learning.objectives.credit import written_positions


class Constraints:
    """Turns the grammars of rollouts into masks; remembers every grammar that it has met."""

    def __init__(self, vocabulary: int) -> None:
        """Begin without grammars. ``vocabulary`` counts the tokens that the model knows."""
        self._table = GrammarTable(vocabulary)

    def allowed(self, rows: Sequence[Row]) -> torch.Tensor | None:
        """Return, N x V and boolean, what could be written in place of each token that was.

        None where no row is a rollout within a grammar. Rows one after the other, of each the
        written tokens but a first one, as `coevolve.learning.scoring.score` takes them.

        Raises GeneratorError where a grammar was made for another model.
        """
        sampled = [row for row in rows if isinstance(row, SampledRow)]
        if all(row.grammar is None for row in sampled):
            return None
        return self._table.allowed(np.concatenate([self._states(row) for row in sampled]))

    def _states(self, row: SampledRow) -> Indices:
        """Return the states in which the row's tokens were chosen, answer by answer."""
        numbered = enumerate(written_positions(row.mask))
        answers = groupby(numbered, key=lambda each: each[1] - each[0])
        paths = [
            self._table.path(
                row.grammar,
                np.array([row.token_ids[position] for _, position in answer], dtype=np.int64),
            )
            for _, answer in answers
        ]
        return np.concatenate(paths) if paths else np.empty(0, dtype=np.int64)
