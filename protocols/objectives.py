"""What the learner optimises: one struct per objective, each with its own parameters."""

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


class _Settings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"
):
    """What a run file says under ``learner.objective``."""


class _Clipped(_Settings, frozen=True, kw_only=True):
    """Settings of every policy gradient."""

    clip_low: BelowOne = 0.2
    """How far the ratio of new to old probability may fall below 1 before it stops counting."""

    clip_high: Bound = 0.2
    """How far the ratio of new to old probability may rise above 1 before it stops counting."""

    aggregation: Aggregation = "constant"


class Grpo(_Clipped, frozen=True, kw_only=True, tag="grpo"):
    """Group-relative policy optimisation, with advantages in standard deviations of the group.

    The defaults are tested here; the paper has ``clip_high`` 0.2 and ``sequence_mean``.
    """

    clip_high: Bound = 0.28


class DrGrpo(_Clipped, frozen=True, kw_only=True, tag="dr_grpo"):
    """GRPO without its two biases: advantages are centred only, token losses summed."""


class Dapo(_Clipped, frozen=True, kw_only=True, tag="dapo"):
    """GRPO with the wider upper bound, the mean over tokens, and groups without variance refilled.

    A group in which every rollout failed is refilled only where references are not imitated.
    """

    clip_high: Bound = 0.28
    aggregation: Aggregation = "token_mean"


class Gspo(_Clipped, frozen=True, kw_only=True, tag="gspo"):
    """GRPO with one ratio for a whole rollout: the geometric mean of its tokens' ratios."""

    clip_low: BelowOne = 3e-4
    clip_high: Bound = 4e-4
    aggregation: Aggregation = "sequence_mean"


class Sft(_Settings, frozen=True, kw_only=True, tag="sft"):
    """Likelihood of the best rollouts of each group, and of rows given to the learner."""


class Dpo(_Settings, frozen=True, kw_only=True, tag="dpo"):
    """Direct preference of a better over a worse rollout of one task."""

    beta: Bound = 0.1
    """How closely the policy stays to the reference model; larger is closer."""


class NoObjective(_Settings, frozen=True, kw_only=True, tag="none"):
    """Nothing but imitation, for ablations.

    Groups whose rollouts differ fill a step's batch as with a policy gradient, and teach nothing.
    """


PolicyGradient = Grpo | DrGrpo | Dapo | Gspo
Objective = PolicyGradient | Sft | Dpo | NoObjective

ImportanceLevel = Literal["token", "sequence", "off"]
"""``token`` compares the probabilities of each token, ``sequence`` those of the whole rollout,
``off`` nothing."""

Credit = Literal["rollout", "turn"]
"""``rollout``: the reward of the token's whole rollout with those of the group. ``turn``: whether
the token's turn passed, with the rollouts of the group that began that turn."""
