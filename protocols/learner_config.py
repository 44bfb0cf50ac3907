"""The ``learner`` section of a run file: how the policy is trained."""

from typing import Annotated, Any, Literal

import msgspec

from protocols.numbers import (
    AtOnce,
    Count,
    LearningRate,
    NonNegative,
    Positive,
    Processes,
    Seconds,
    Share,
    Tokens,
    Tries,
    Weight,
)
from protocols.objectives import Credit, ImportanceLevel

DEFAULT_OBJECTIVE = "grpo"


class ImitationConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Imitation of the reference solution when all or most rollouts of a group failed.

    Such a group gives a policy gradient no signal. Imitation has its own optimizer, so the size of
    its gradient does not affect the step of the policy gradient.
    """

    weight: Weight = 8.0
    """Loss weight of the reference of a failed group; 0 turns imitation off."""

    success_share: Share = 0.0
    """A group teaches by its reference, and not by the policy gradient, if at most this share of
    its rollouts succeeded. 0: only if all of them failed."""

    learning_rate: LearningRate = 1e-3
    """Learning rate of imitation's own optimizer; ``learner.schedule`` and ``warmup_steps`` also
    apply to it."""

    replay_size: NonNegative = 256
    """Maximum number of references kept for replay."""

    replay_per_step: NonNegative = 24
    """Number of kept references that each step imitates again; 0 turns replay off."""

    replay_weight: Weight = 2.0
    """Weight of a replayed reference."""


class WarmStartConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A first stage of the run that only imitates references, until most skills are ready.

    A step of the stage imitates each confirmed reference, whatever the group's rollouts did, and
    takes no policy gradient. The stage ends when more than half of the skills of the trained tasks
    are ready, or after ``steps``. Then the loop begins.
    """

    steps: NonNegative = 0
    """Maximum number of steps of the stage, which are part of ``learner.steps``; 0: no warm
    start."""

    attempts: Count = 8
    """Minimum number of rollouts by which a skill is judged: those of its newest groups that
    together have as many."""

    success_share: Share = 0.05
    """A skill is ready if at least this share of these rollouts succeeded."""


class GuardConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the learner responds when the policy loses abilities.

    The evaluator scores canary tasks, which are neither trained on nor held out. A version has
    regressed when it passes fewer canaries than the best version so far. The difference must exceed
    ``max_loss`` of all canaries and must be statistically significant (see ``chance``).
    """

    action: Literal["return", "warn", "none"] = "return"
    """``return``: restore the weights of the best version, with a fresh optimizer and a lower
    learning rate. ``warn``: record the regression and continue. ``none``: score no canaries."""

    every: Count = 10
    """Steps between two evaluations of the canaries."""

    tasks: Count = 64
    """Maximum number of canary tasks."""

    max_loss: Annotated[float, msgspec.Meta(ge=0.0, lt=1.0)] = 0.1
    """Share of the canaries that a version may lose without a regression, 0 to below 1."""

    chance: Annotated[float, msgspec.Meta(gt=0.0, lt=1.0)] = 0.01
    """Maximum probability of any false alarm in a run in which no ability changes. Each comparison
    is a one-sided exact sign test over the canaries whose result changed, at its part of this."""

    rate_factor: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.5
    """Each return to an earlier version multiplies all learning rates by this factor."""


class LearnerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of policy optimization."""

    steps: Count = 80
    """Training steps of the run."""

    groups_per_step: AtOnce = 8
    """Groups that one step trains on."""

    objective: dict[str, Any] = msgspec.field(default_factory=lambda: {"kind": DEFAULT_OBJECTIVE})
    """The training objective. ``kind`` names it; the other settings are its own."""

    learning_rate: LearningRate = 2e-3
    """Learning rate of AdamW after the warm-up."""

    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Shape of the learning rate from the end of the warm-up to the last of ``steps``."""

    warmup_steps: NonNegative = 0
    """Steps over which the learning rate rises linearly from 0."""

    final_rate_share: Share = 0.0
    """Final learning rate of ``linear`` and ``cosine``, as a share of ``learning_rate``."""

    weight_decay: Annotated[float, msgspec.Meta(ge=0.0, le=100.0)] = 0.0
    """Weight decay of AdamW."""

    max_grad_norm: Positive = 1.0
    """Norm to which longer gradients are clipped."""

    ppo_epochs: Tries = 1
    """Number of passes over the batch in each step."""

    mini_batches: AtOnce = 1
    """Number of updates in each pass. With a single update per step, clipping never takes
    effect."""

    micro_batch_tokens: Tokens = 682
    """Maximum tokens of one forward and backward pass, including padding. This bounds a step's
    memory. What all its rows begin with is computed, and counted, once, where the model keeps keys
    and values of every position. For a small model, larger micro-batches cost more in padding than
    they save. A single longer row gets a micro-batch of its own."""

    credit: Credit = "rollout"
    """What a policy gradient compares between the rollouts of a group."""

    negative_weight: Share = 1.0
    """Factor for the negative advantages of a policy gradient, 0..1. Below 1, a failure lowers the
    probability of its tokens by less than a success raises the probability of its own. The reason:
    a failure does not show what an unsure policy should have done instead."""

    importance: ImportanceLevel = "token"
    """Level of the correction for the difference between the engine's and the trainer's
    probabilities."""

    importance_cap: Positive = 2.0
    """Maximum of the importance ratio, trainer to engine; larger ratios are truncated."""

    kl_coefficient: Weight = 0.0
    """Weight of the divergence from the run's initial model; 0 needs no reference model. The
    measured figure estimates KL(policy || start); the loss pulls along the gradient of
    KL(start || policy), since sampled tokens are held fixed in it."""

    loss_normalizer_tokens: Tokens = 12
    """Expected sampled tokens per rollout. Token losses are divided by this constant if the
    objective's ``aggregation`` is ``constant``."""

    imitation: ImitationConfig = ImitationConfig()
    warm_start: WarmStartConfig = WarmStartConfig()
    refill_batches: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 8
    """Maximum number of uninformative groups that a step replaces by others, in batches of
    ``groups_per_step``. A group is uninformative when its rollouts do not differ and no reference
    is imitated. Above the maximum, uninformative groups fill the batch. 0 replaces none; the
    objective ``dapo`` needs at least 1."""

    guard: GuardConfig = GuardConfig()

    divergence_every: NonNegative = 10
    """Steps between measurements of the divergence from the run's initial model
    (``actor/kl_from_start``). With full weights the learner keeps a second copy of the model for
    this. 0 turns the measurement off."""

    max_staleness: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 2
    """Maximum number of policy versions by which a rollout may lag behind the learner when it is
    trained on."""

    failure_timeout_s: Seconds = 300.0
    """The run ends if, for this long, infrastructure failures leave every group without rollouts to
    compare. At least ``groups_per_step`` groups must fail in a row first."""

    checkpoint_every: Count = 10
    """Steps between checkpoints that are kept, for replays and exports."""

    keep_checkpoints: Count = 3
    """Number of such checkpoints that are kept, the newest. That of the best version by the guard's
    canaries stays, too."""

    recover_every: NonNegative = 1
    """Steps between further checkpoints, of which only the newest stays: a learner that is killed
    continues from it. They are written while the learner waits for rollouts. If they delay its
    steps by more than 5 % of the time, it leaves some out. Raise this for large models, to write
    less to the disk; 0 writes none."""

    threads: Processes = 1
    """CPU threads of the learner's arithmetic, in each of its processes."""

    devices: Processes = 1
    """Number of processes over which weights, gradients and optimizer are sharded, with
    ``policy.device: cuda`` each on a GPU of its own. They may be on several nodes
    (``placement.learner``). When a run is resumed with another number, it continues from the same
    weights; repeated steps agree with the recorded ones to rounding, not in every bit."""

    gpus: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 1.0
    """GPUs of each of these processes, with ``policy.device: cuda``, as Ray counts them. A share,
    such as 0.5, leaves the rest of the GPU to an engine (``rollout.engine.gpus``)."""

    device_timeout_s: Seconds = 600.0
    """With several ``devices``: how long one waits for another before the step is aborted."""

    @property
    def guard_comparisons(self) -> int:
        """Return how many versions the guard compares in the whole run: the last one, too."""
        return -(-self.steps // self.guard.every)

    def guard_chance(self, references: int) -> float:
        """Return the significance level of comparing a version with the best of ``references``.

        The best one may be any of them, so each pair of a version and an earlier one has a part of
        ``guard.chance`` (Bonferroni): the versions have equal parts, and so have the pairs of one.
        """
        return self.guard.chance / (self.guard_comparisons * max(1, references))

    @property
    def objective_kind(self) -> str:
        """Return the name of the objective."""
        return self.objective.get("kind", DEFAULT_OBJECTIVE)

    @property
    def only_imitates(self) -> bool:
        """Return whether the run has no objective but imitation."""
        return self.objective_kind == "none"
