"""How the losses of tokens become the loss of a step.

    constant:       sum_i sum_t l_it / (B L)       Dr. GRPO (arXiv 2503.20783)
    token_mean:     sum_i sum_t l_it / sum_i T_i   DAPO (arXiv 2503.14476)
    sequence_mean:  sum_i (sum_t l_it / T_i) / B   GRPO (arXiv 2402.03300)

with B rollouts of T_i written tokens each, and a constant L. B and T_i count every rollout of the
batch, also those of groups without variance, whose losses are 0. References that are imitated are
weighed by the same rule: they stand in for the rollouts of a group that has nothing else to teach.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from protocols.objectives import Aggregation


@dataclass(frozen=True, kw_only=True)
class LossNormalizer:
    """What the losses of one optimizer update count."""

    aggregation: Aggregation

    tokens: float
    """Divisor of the scaled losses of tokens."""

    pairs: float = 1.0
    """Divisor of the losses of pairs."""

    def scale(self, length: int) -> float:
        """Return what the loss of each token counts in a rollout of ``length`` written ones."""
        return 1.0 / length if self.aggregation == "sequence_mean" and length else 1.0

    def of_mini_batch(self, count: int) -> "LossNormalizer":
        """Return that of one of ``count`` mini-batches of about equal size."""
        return LossNormalizer(
            aggregation=self.aggregation, tokens=self.tokens / count, pairs=self.pairs / count
        )


def of_batch(
    aggregation: Aggregation, lengths_R: Sequence[int], *, expected_tokens: float
) -> LossNormalizer:
    """Return how a batch's losses are weighed.

    Args:
        aggregation: The rule.
        lengths_R: Tokens that each of the batch's rollouts wrote.
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


def of_supervision(tokens: int, pairs: int) -> LossNormalizer:
    """Return the mean over the given rows' written tokens, and over the given pairs."""
    return LossNormalizer(
        aggregation="token_mean", tokens=float(max(1, tokens)), pairs=float(max(1, pairs))
    )
