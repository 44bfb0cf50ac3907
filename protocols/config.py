"""The shape of a run file. One struct per part; every default is a tested setting."""

from typing import Annotated, Any, Literal

import msgspec

from protocols.evolution_config import (
    PoolConfig,
    SignalsConfig,
    SynthesizerConfig,
    ValidatorConfig,
)
from protocols.journal import Durability
from protocols.learner_config import LearnerConfig
from protocols.learning import WeightsFormat
from protocols.numbers import Count, NonNegative, Positive


class ChatConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a policy with a chat template is talked to; the tiny policy has a format of its own."""

    tools: Literal["template", "prompt"] = "template"
    """``template``: its chat template tells it the tools, and calls are written as there.
    ``prompt``: for templates without tools; the system message tells them, and calls are lists of
    Python calls."""

    thinking: bool = False
    """The template's ``enable_thinking``. What was thought stays in the context."""

    system: str = ""
    """System message; empty for the template's own, if it has one."""


class PolicyConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model that learns."""

    model: str = "tiny"
    """``tiny`` for the shipped policy, a folder in Hugging Face layout, or the name of a model in
    Hugging Face's cache, for example ``Qwen/Qwen3-4B-Instruct-2507``. Nothing is downloaded."""

    tiny_random: bool = False
    """Whether the run trains a tiny model of the same architecture, with random weights and on the
    CPU, in place of the model: to try a run file with all its parts. Nothing useful is learned."""

    train: WeightsFormat = "full"
    precision: Literal["fp32", "bf16"] = "fp32"
    """Arithmetic of the learner. ``bf16``: products in bfloat16, while what learns stays in
    float32; beside an adapter the weights that do not learn are in bfloat16, too."""

    device: Literal["cpu", "cuda"] = "cpu"
    """Where the learner computes."""

    gradient_checkpointing: bool = False
    """Whether a layer's inner values are computed again on the way back, and not kept: a third more
    arithmetic for memory that no longer grows with the layers' width."""

    lora_rank: Count = 16
    lora_alpha: Count = 32
    lora_targets: tuple[str, ...] = ()
    """Names of the layers that get an adapter, for example ``q_proj``; empty for every linear layer
    but the output head and the experts."""

    chat: ChatConfig = ChatConfig()


TransformersDtype = Literal["float32", "bfloat16"]


class TransformersEngine(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="transformers",
):
    """Generation with transformers, on the CPU: for small policies."""

    dtype: TransformersDtype = "float32"
    """Precision of the weights that sample; ``float32`` is the learner's own arithmetic."""


class VllmEngine(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="vllm",
):
    """Generation with vLLM, on the CPU or on a GPU."""

    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Precision of the weights that sample. ``float32`` is the learner's own arithmetic;
    ``bfloat16`` takes half the memory and differs from it by some thousandths per logprob."""

    deliver: Literal["merged", "adapter"] = "merged"
    """How an adapter is served: ``merged`` into the weights, at no cost per token; or beside them,
    switched in milliseconds whatever the model's size, and every request keeps the adapter that it
    began with."""

    kv_cache_mb: NonNegative = 256
    """Memory for keys and values. 0, for a GPU only: what ``gpu_memory_utilization`` leaves."""

    gpu_memory_utilization: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.9
    """Share of a GPU's memory that one engine takes, where ``kv_cache_mb`` is 0."""

    block_size: Annotated[int, msgspec.Meta(ge=32, multiple_of=32)] = 32
    """Tokens whose keys and values are cached and found again together."""

    batch_tokens: Annotated[int, msgspec.Meta(ge=256)] = 2048
    """Tokens that one step computes at most."""

    threads: Count = 1
    """CPU threads of the arithmetic; more than one pays from some 20 million parameters on."""

    gpus: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0
    """GPUs of each engine, as Ray counts them; 0 for the CPU."""

    step_timeout_s: Positive = 120.0
    """A step, or a change of weights, that takes longer is stuck; the engine is then replaced."""

    self_test: bool = True
    """Whether the engine compares itself with transformers, on the CPU, before it serves."""


Engine = TransformersEngine | VllmEngine


class RolloutConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rollout actors and how they sample."""

    actors: Count = 1
    engine: Engine = TransformersEngine()
    """What samples, for rollouts and for evaluation."""

    group_size: Annotated[int, msgspec.Meta(ge=2)] = 8
    """K, rollouts of one task that are compared with each other."""

    concurrent: Count = 96
    """Rollouts in flight per actor."""

    temperature: Positive = 1.0
    max_tokens: Count = 256
    """Whole conversation, tokens."""

    max_call_tokens: Count = 40
    """One message of the policy, with all its calls, tokens."""

    max_calls_per_turn: Count = 4
    in_flight_groups: NonNegative = 0
    """Groups requested and not yet consumed by the learner. 0 means as many as the staleness bound
    allows: ``learner.groups_per_step * (1 + learner.max_staleness)``."""

    tries: Count = 3
    """Attempts at one rollout before a machine's failure makes it a failed rollout."""


class SimulatorConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The simulator pool."""

    workers: Count = 2
    timeout_s: Positive = 10.0
    """Wall clock for one batch of commands; then the child is replaced."""

    memory_mb: Annotated[int, msgspec.Meta(ge=64)] = 512
    """Address space of a child."""


class DeliveryConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Proof that every engine serves the policy version that was published."""

    tolerance: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0
    """Nats by which learner and engine may differ on the probe: on each token where both compute in
    float32, otherwise on average. 0 chooses by precision
    (`coevolve.delivery.probe.tolerance_of`)."""

    sampler_tolerance: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0
    """Nats by which learner and engine may differ, on average, on the tokens that were sampled
    under the learner's present weights. 0 chooses by precision
    (`coevolve.delivery.sampler.tolerance_of`)."""

    timeout_s: Positive = 300.0
    """Seconds after publication by which each rollout engine has to have proven the version, or a
    newer one. An engine that is started again needs to be back within them."""


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

    stop_s: Positive = 8.0
    """How long an interrupted run may take to end the step in hand, seconds. After that the process
    ends, and a resumed run takes the step again. ``coevolve attach stop`` has no such limit."""


class RunConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole run: the root of every file in ``configs/``."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")]
    seed: NonNegative = 0
    environment: dict[str, Any] = {}
    """What the policy acts in. ``use`` names it: a built-in one, one that an installed package
    offers, or ``package.module:Class`` of your own. The other settings are the environment's
    (`coevolve.environments.interface`)."""

    arm: Literal["full", "random", "placebo", "uniform", "static"] = "full"
    """Where training tasks come from.

    ``full``: seed tasks, and tasks synthesized where signals point. ``random``: the same number of
    syntheses, exploring freely. ``placebo``: the same prompts, each with the evidence of another
    task or pattern, drawn at random. ``uniform``: a fresh task of the grammar for every group, all
    skills alike. ``static``: the seed tasks alone, with the warm start's imbalance.
    """

    evolve_every: NonNegative = 0
    """0: tasks join the pool when they are admitted, while training goes on. F: they join every F
    steps, when all signals of those steps are settled, as in CoEvolve."""

    evolve_wait_s: Positive = 600.0
    """With ``evolve_every``: how long training waits for synthesis before it goes on without."""

    policy: PolicyConfig = PolicyConfig()
    rollout: RolloutConfig = RolloutConfig()
    simulator: SimulatorConfig = SimulatorConfig()
    signals: SignalsConfig = SignalsConfig()
    synthesizer: SynthesizerConfig = SynthesizerConfig()
    validator: ValidatorConfig = ValidatorConfig()
    pool: PoolConfig = PoolConfig()
    learner: LearnerConfig = LearnerConfig()
    delivery: DeliveryConfig = DeliveryConfig()
    evaluator: EvaluatorConfig = EvaluatorConfig()
    store: StoreConfig = StoreConfig()
    watchdog: WatchdogConfig = WatchdogConfig()
    cluster: ClusterConfig = ClusterConfig()

    @property
    def uses(self) -> str:
        """Return the name of the environment."""
        return self.environment.get("use", "")

    @property
    def synthesizes(self) -> bool:
        """Return whether the run's arm makes tasks of its own."""
        return self.arm in ("full", "random", "placebo")

    @property
    def most_groups_in_flight(self) -> int:
        """Return how many groups may be requested and unconsumed without any becoming too old.

        A group requested at version v is consumed after at most that many others, so at the latest
        by step v + 1 + max_staleness, which trains version v + max_staleness.
        """
        return self.learner.groups_per_step * (1 + self.learner.max_staleness)
