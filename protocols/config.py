"""The shape of a run file. One struct per part; every default is a tested setting."""

from typing import Annotated, Literal

import msgspec

from protocols.journal import Durability
from protocols.learning import WeightsFormat

Count = Annotated[int, msgspec.Meta(ge=1)]
NonNegative = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0.0)]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


class PolicyConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model that learns."""

    model: str = "tiny"
    """``tiny`` for the shipped policy, or a folder in Hugging Face layout."""

    train: WeightsFormat = "full"
    lora_rank: Count = 16
    lora_alpha: Count = 32


class TasksConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where training tasks come from."""

    source: Literal["static", "uniform"] = "uniform"
    """``static``: a fixed pool with the warm start's imbalance. ``uniform``: a fresh task for every
    group, all skills alike."""

    pool: Count = 150
    """Tasks of the static pool."""

    held_out: Count = 240
    """Tasks of the held-out set, the same in every run."""

    in_flight_groups: NonNegative = 0
    """Groups requested and not yet consumed by the learner. 0 means as many as the staleness bound
    allows: ``learner.groups_per_step * (1 + learner.max_staleness)``."""


class RolloutConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rollout actors and how they sample."""

    actors: Count = 1
    group_size: Annotated[int, msgspec.Meta(ge=2)] = 8
    """K, rollouts of one task that are compared with each other."""

    concurrent: Count = 96
    """Rollouts in flight per actor."""

    temperature: Positive = 1.0
    max_tokens: Count = 256
    """Whole conversation, tokens."""

    max_call_tokens: Count = 40
    """One call, tokens."""

    max_calls_per_turn: Count = 4
    tries: Count = 3
    """Attempts at one rollout before a machine's failure makes it void."""


class SimulatorConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The simulator pool."""

    workers: Count = 2
    timeout_s: Positive = 10.0
    """Wall clock for one batch of commands; then the child is replaced."""

    memory_mb: Annotated[int, msgspec.Meta(ge=64)] = 512
    """Address space of a child."""


class LearnerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Policy optimisation."""

    steps: Count = 80
    groups_per_step: Count = 8
    learning_rate: Positive = 2e-3
    warmup_steps: NonNegative = 0
    max_grad_norm: Positive = 1.0
    normalize_advantage: bool = True
    """Divide by the group's standard deviation (GRPO); otherwise centre only (Dr. GRPO)."""

    clip_low: Share = 0.2
    clip_high: Positive = 0.28
    importance_cap: Positive = 2.0
    """Truncation of the engine-to-trainer importance ratio."""

    kl_coefficient: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0
    loss_normalizer_tokens: Count = 12
    """Expected sampled tokens per rollout: the constant that token losses are divided by."""

    imitation_weight: Annotated[float, msgspec.Meta(ge=0.0)] = 8.0
    """Weight of the reference where every rollout of a group failed; 0 turns imitation off."""

    replay_size: NonNegative = 256
    """References kept for replay."""

    replay_per_step: NonNegative = 24
    replay_weight: Annotated[float, msgspec.Meta(ge=0.0)] = 2.0
    refill_zero_variance: bool = False
    """Whether a group in which every rollout succeeded is replaced by another (DAPO)."""

    max_staleness: NonNegative = 2
    """Policy versions that a rollout may be behind the learner when it is trained on."""

    checkpoint_every: Count = 10
    """Steps between checkpoints."""

    threads: Count = 1


class EvaluatorConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Scoring on held-out tasks."""

    every: Count = 40
    """Steps between evaluations; the first and the last version are always scored."""

    concurrent: Count = 128


class StoreConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The journal."""

    durability: Durability = "process"
    map_size_gb: Annotated[int, msgspec.Meta(ge=1, le=65536)] = 1024
    """Address space reserved for the map; the file itself is as large as its content."""

    retain_gb: Positive = 32.0
    """Beyond this the oldest rollouts go; tasks, verdicts, signals and versions never do."""

    lease_s: Positive = 120.0
    """A member that says nothing for so long loses what it took."""


class WatchdogConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Noticing that nothing moves."""

    quiet_s: Positive = 60.0
    """Seconds without a new record before the run says who waits for whom."""


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The Ray cluster."""

    address: str = ""
    """Of a running cluster; empty starts a local one that ends with the run."""


class RunConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole run: the root of every file in ``configs/``."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")]
    seed: NonNegative = 0
    domain: Literal["bfcl"] = "bfcl"
    policy: PolicyConfig = PolicyConfig()
    tasks: TasksConfig = TasksConfig()
    rollout: RolloutConfig = RolloutConfig()
    simulator: SimulatorConfig = SimulatorConfig()
    learner: LearnerConfig = LearnerConfig()
    evaluator: EvaluatorConfig = EvaluatorConfig()
    store: StoreConfig = StoreConfig()
    watchdog: WatchdogConfig = WatchdogConfig()
    cluster: ClusterConfig = ClusterConfig()
