"""The section of a run file that says how the policy learns."""

from typing import Annotated, Literal

import msgspec

from protocols.numbers import Count, NonNegative, Positive, Share
from protocols.objectives import Credit, Dpo, Grpo, ImportanceLevel, NoObjective, Objective, Sft


class ImitationConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Learning from references where every rollout of a group failed.

    A policy gradient learns nothing from such a group. Imitation has an optimizer of its own, so
    the size of its gradient does not decide how far the policy gradient moves the weights.
    """

    weight: Annotated[float, msgspec.Meta(ge=0.0)] = 8.0
    """Weight of the reference of a group that failed; 0 turns imitation off."""

    learning_rate: Positive = 1e-3
    """Of imitation's own optimizer; ``learner.schedule`` and ``warmup_steps`` apply to it, too."""

    replay_size: NonNegative = 256
    """References kept for replay."""

    replay_per_step: NonNegative = 24
    """References that a step imitates once more; 0 turns replay off."""

    replay_weight: Annotated[float, msgspec.Meta(ge=0.0)] = 2.0
    """Weight of a replayed reference."""


class GuardConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the learner does about a policy that loses what it could do.

    The evaluator scores canary tasks, which are neither trained on nor held out. A version has
    lost when it passes fewer of them than the best version so far, by more than ``max_loss`` of all
    canaries and by more than chance allows.
    """

    action: Literal["return", "warn", "none"] = "return"
    """``return``: go back to the weights of the best version, with a fresh optimizer and a lower
    learning rate. ``warn``: record the loss and go on. ``none``: score no canaries."""

    every: Count = 10
    """Steps between two scores of the canaries."""

    tasks: Count = 64
    """Canary tasks, at most as many as there are."""

    max_loss: Annotated[float, msgspec.Meta(ge=0.0, lt=1.0)] = 0.1
    """Share of the canaries that a version may lose, 0 to below 1."""

    chance: Annotated[float, msgspec.Meta(gt=0.0, lt=1.0)] = 0.01
    """Highest p value of a loss, in all comparisons of a run together: one-sided exact sign test
    over the canaries that changed."""

    rate_factor: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.5
    """What each return multiplies all learning rates with."""


class LearnerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Policy optimisation."""

    steps: Count = 80
    """Training steps of the run."""

    groups_per_step: Count = 8
    """Groups that one step trains on."""

    objective: Objective = Grpo()
    """What is optimised, with its own parameters."""

    learning_rate: Positive = 2e-3
    """Learning rate of AdamW after the warm-up."""

    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the learning rate goes after the warm-up, until the last of ``steps``."""

    warmup_steps: NonNegative = 0
    """Steps over which the learning rate rises linearly from 0."""

    final_rate_share: Share = 0.0
    """Share of the learning rate that ``linear`` and ``cosine`` fall towards."""

    weight_decay: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0
    """Weight decay of AdamW."""

    max_grad_norm: Positive = 1.0
    """Norm to which longer gradients are clipped."""

    ppo_epochs: Count = 1
    """How often a step goes over its batch."""

    mini_batches: Count = 1
    """Updates of one such pass. With a single update a step, no clip ever binds."""

    micro_batch_tokens: Count = 682
    """Tokens of one forward and backward, padding included: what bounds a step's memory. More rows
    at a time cost a small model more in padding than they save. One row may be longer."""

    credit: Credit = "rollout"
    """What a policy gradient compares between the rollouts of a group."""

    negative_weight: Share = 1.0
    """What negative advantages of a policy gradient are multiplied with, 0..1. Below 1 a failure
    makes its tokens less unlikely than a success makes its own likely: what an unsure policy should
    do instead of a failure is unknown."""

    importance: ImportanceLevel = "token"
    """Correction of what the engine's probabilities differ from the trainer's."""

    importance_cap: Positive = 2.0
    """Truncation of the engine-to-trainer importance ratio."""

    kl_coefficient: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0
    """Weight of the divergence from the model that the run starts from; 0 needs no reference."""

    loss_normalizer_tokens: Count = 12
    """Expected sampled tokens per rollout: the constant that token losses are divided by where the
    objective's ``aggregation`` is ``constant``."""

    imitation: ImitationConfig = ImitationConfig()
    refill_batches: NonNegative = 8
    """How many groups that teach nothing a step may replace by others, in batches of
    ``groups_per_step``. A group teaches nothing when its rollouts do not differ and no reference
    is imitated. Beyond the bound such groups fill the batch. 0 replaces none; the objective
    ``dapo`` needs at least 1."""

    guard: GuardConfig = GuardConfig()

    divergence_every: NonNegative = 10
    """Steps between measurements of the divergence from the model that the run starts from
    (``actor/kl_from_start``). With full weights the learner keeps a second copy of the model for
    it. 0 measures nothing."""

    max_staleness: NonNegative = 2
    """Policy versions that a rollout may be behind the learner when it is trained on."""

    failure_timeout_s: Positive = 300.0
    """How long groups may go on coming in of which machines' failures left nothing to compare,
    before the run ends. At least a step's groups have to fail in a row."""

    checkpoint_every: Count = 10
    """Steps between checkpoints."""

    threads: Count = 1
    """CPU threads of the learner's arithmetic, in each of its processes."""

    devices: Count = 1
    """Processes, or GPUs of one node, over which weights, gradients and optimizer are split."""

    device_timeout_s: Positive = 600.0
    """With several ``devices``: how long one waits for another before the step is given up."""

    @property
    def guard_chance(self) -> float:
        """Highest p value of a loss in one comparison: the comparisons of a run share it."""
        return self.guard.chance / max(1, self.steps // self.guard.every)

    @property
    def needs_reference(self) -> bool:
        """Return whether the learner asks the model that the run starts from for its logprobs."""
        match self.objective:
            case Dpo():
                return True
            case Sft() | NoObjective():
                return False
            case _:
                return self.kl_coefficient > 0 or self.divergence_every > 0
