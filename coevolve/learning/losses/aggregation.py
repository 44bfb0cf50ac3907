"""Aggregation of token losses into the loss of a step.

    constant:       sum_i sum_t l_it / (B L)       Dr. GRPO (arXiv 2503.20783)
    token_mean:     sum_i sum_t l_it / sum_i T_i   DAPO (arXiv 2503.14476)
    sequence_mean:  sum_i (sum_t l_it / T_i) / B   GRPO (arXiv 2402.03300)

with B rollouts of T_i written tokens each, in all of their conversations, and a constant L. B and
T_i count every rollout of the batch, including groups without variance, whose losses are 0.
Imitated references use the same weights, because they replace the rollouts of a group without other
signal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from coevolve.learning.rows import Row
from protocols.objectives import Aggregation


@dataclass(frozen=True, kw_only=True)
class LossNormalizer:
    """Weights and divisors of the losses of one optimizer update."""

    aggregation: Aggregation

    tokens: float
    """Divisor of the scaled token losses."""

    rows: float = 1.0
    """Divisor of the losses of whole rows."""

    def scale(self, length: int) -> float:
        """Return the weight of each token's loss in a rollout of ``length`` written tokens."""
        return 1.0 / length if self.aggregation == "sequence_mean" and length else 1.0

    def of_mini_batch(self, count: int) -> "LossNormalizer":
        """Return the normalizer for one of ``count`` mini-batches of about equal size."""
        return LossNormalizer(
            aggregation=self.aggregation, tokens=self.tokens / count, rows=self.rows / count
        )


def of_batch(
    aggregation: Aggregation, lengths_R: Sequence[int], *, expected_tokens: float
) -> LossNormalizer:
    """Return the normalizer of a batch.

    Args:
        aggregation: The rule.
        lengths_R: Number of tokens that each of the batch's rollouts wrote.
        expected_tokens: B L of the rule ``constant``.
    """
    match aggregation:
        case "constant":
            tokens = expected_tokens
        case "token_mean":
            tokens = float(max(1, sum(lengths_R)))
        case "sequence_mean":
            tokens = float(max(1, len(lengths_R)))
        case _:
            assert_never(aggregation)
    return LossNormalizer(aggregation=aggregation, tokens=tokens)


def of_rows(rows: Sequence[Row]) -> LossNormalizer:
    """Return the normalizer for means over the trained tokens, and over rows with one loss each."""
    whole = [row for row in rows if all(each.component.is_per_row for each in row.streams)]
    tokens = sum(row.written for row in rows) - sum(row.written for row in whole)
    return LossNormalizer(
        aggregation="token_mean", tokens=float(max(1, tokens)), rows=float(max(1, len(whole)))
    )
