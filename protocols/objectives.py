"""Values of the settings of training objectives."""

from typing import Annotated, Literal

import msgspec

Bound = Annotated[float, msgspec.Meta(gt=0.0, le=1e9)]
BelowOne = Annotated[float, msgspec.Meta(gt=0.0, le=1.0)]

Aggregation = Literal["constant", "token_mean", "sequence_mean"]
"""How the losses of tokens become the loss of a step.

``constant``: their sum over ``groups_per_step * group_size * loss_normalizer_tokens``, whatever the
rollouts' lengths. ``token_mean``: their mean over all tokens that the batch's rollouts wrote.
``sequence_mean``: the mean over the batch's rollouts of each one's mean over its tokens.
"""


ImportanceLevel = Literal["token", "sequence", "off"]
"""``token`` compares the probabilities of each token, ``sequence`` those of the whole rollout,
``off`` nothing."""

Credit = Literal["rollout", "turn"]
"""``rollout``: the reward of the token's whole rollout with those of the group. ``turn``: whether
the token's turn passed, with the rollouts of the group that began that turn."""
