"""The shape of a run file. One struct per part; every default is a tested setting."""

from typing import Annotated, Literal

import msgspec

from protocols.evolution import PatternKind, SignalKind
from protocols.hardware import SimulationLimits, SubmissionForm
from protocols.journal import Durability
from protocols.learning import WeightsFormat
from protocols.objectives import Grpo, ImportanceLevel, Objective
from protocols.synthesizers import PolicyModel, SynthesizerModel
from protocols.tasks import BfclCategory

Count = Annotated[int, msgspec.Meta(ge=1)]
NonNegative = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0.0)]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


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

    shrink: bool = False
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
    """Names of the modules that get an adapter, for example ``q_proj``; empty for every linear
    layer but the output head."""

    chat: ChatConfig = ChatConfig()


class TasksConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where training tasks come from."""

    source: Literal["grammar", "bfcl"] = "grammar"
    """``grammar``: drawn afresh on BFCL's file system. ``bfcl``: the benchmark's own multi-turn
    tasks, for policies with a chat template."""

    seeds: Count = 150
    """Tasks that the run starts with, at most as many as there are; every arm but ``uniform``
    trains on them. (CoEvolve's N = 100.)"""

    held_out: Count = 240
    """Tasks of the held-out set, at most as many as there are, the same in every run."""

    categories: Annotated[tuple[BfclCategory, ...], msgspec.Meta(min_length=1)] = ("base",)
    """Which of the benchmark's categories, with ``source: bfcl``."""

    split_seed: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    """Which of the benchmark's worlds are held out; runs that are compared need the same."""

    held_out_share: Annotated[float, msgspec.Meta(gt=0.0, lt=1.0)] = 0.3
    """Share of the benchmark's worlds that are held out: about so many of its tasks. 0.5 gives
    about 100 of 200 on each side, as in AgentEvolver, on which CoEvolve builds."""

    in_flight_groups: NonNegative = 0
    """Groups requested and not yet consumed by the learner. 0 means as many as the staleness bound
    allows: ``learner.groups_per_step * (1 + learner.max_staleness)``."""


class PoolConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tasks that the curriculum draws from."""

    synthetic_share: Share = 0.75
    """Most that synthesized tasks may make up of all groups so far. Where none is to be had, seed
    tasks are drawn instead."""

    capacity: Count = 512
    """Live synthesized tasks; beyond it the one that teaches least is retired."""

    retire_after: Count = 2
    """A task is retired when so many visits in a row were mastered by every rollout."""

    retired_share: Share = 0.05
    """Share of groups that probe retired tasks for forgetting; a forgotten one lives again."""


class SignalsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What counts as a weakness of the policy."""

    rules: Literal["posterior", "paper"] = "posterior"
    kinds: tuple[SignalKind, ...] = ("forgetting", "boundary", "rare")
    """Which signals are emitted; leaving one out is a control."""

    patterns: tuple[PatternKind, ...] = ("tool", "tool_bigram", "argument_shape", "error_class")
    """Kinds of patterns that the posterior rule for rare ones looks at."""

    window: Count = 10
    """Visits of a task that are looked back on."""

    rare_share: Share = 0.05
    """A pattern below this share of all patterns of its kind is rare. (CoEvolve's theta.)"""

    confidence: Share = 0.95
    """Posterior probability at which boundary and rare fire."""

    forgetting_drop: Share = 0.2
    """Success that has to be lost for a task to count as forgotten."""

    false_discovery: Share = 0.05
    """Expected share of false ones among the tasks that are called forgotten."""

    boundary_low: Share = 0.1
    boundary_high: Share = 0.9
    """A task is at the boundary where its success rate lies between these."""

    half_life_visits: Positive = 200.0
    """After so many visits a pattern that was seen counts half."""

    cool_down_versions: NonNegative = 8
    """Policy versions for which a rule says nothing more about the same task or pattern."""


class SynthesizerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Making tasks out of signals."""

    model: SynthesizerModel = PolicyModel()
    rounds: Count = 4
    """Explorations of one signal, each from a train-split state of its own."""

    steps: Count = 12
    """Calls of one exploration, at most."""

    concurrent: Count = 4
    """Signals worked on at a time."""

    expire_versions: Count = 20
    """A signal that waited while the policy made so many versions is settled as expired."""

    max_tokens: NonNegative = 0
    """Prompt and answer tokens of the whole run; 0 for no limit."""

    max_cost_usd: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0
    """Cost of the whole run at the endpoint's configured prices; 0 for no limit."""

    max_tokens_by_kind: dict[SignalKind, Count] = {}
    """Prompt and answer tokens for the signals of a kind."""


class ValidatorConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Judging candidates."""

    probes: Count = 4
    """Rollouts that label a sound candidate."""

    similarity: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.8
    """From this on a candidate is a near-duplicate of a task of the pool, or of a held-out one."""

    not_yet_share: Share = 0.6
    """Share of the admitted tasks that the policy may be unable to do, where the learner imitates
    references; further ones are parked. Without imitation all of them are."""

    retry_after_versions: Count = 10
    """Policy versions after which a parked candidate is probed again."""

    concurrent: Count = 32
    """Candidates judged at a time."""

    judge: bool = False
    """Whether the synthesizer's endpoint gives a second opinion; it is logged beside the machine's
    verdict and does not change it."""

    positive_reward_clause: bool = False
    """CoEvolve's clause: admit a candidate whose reference fails where the simulator nevertheless
    gives a positive reward. It admits garbage; off."""


class TransformersEngine(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="transformers",
):
    """Generation with transformers, on the CPU, in float32: for small policies."""


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


class RejectionConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which testbenches fine-tuning learns from: LLM4Cov's coverage-guided rejection."""

    least_gain: Annotated[float, msgspec.Meta(ge=-1.0, le=1.0)] = 0.01
    """Overall average that a step has to gain."""

    floor: Share = 0.0
    """Overall average that it has to reach. (LLM4Cov's stage 0: 0.5.)"""

    no_kind_falls: bool = True
    """Whether a step is rejected where any kind of coverage fell."""


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
    objective: Objective = Grpo()
    """What is optimised, with its own parameters."""

    learning_rate: Positive = 2e-3
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the learning rate goes after the warm-up, until the last of ``steps``."""

    warmup_steps: NonNegative = 0
    final_rate_share: Share = 0.0
    """Share of the learning rate that ``linear`` and ``cosine`` fall towards."""

    weight_decay: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0
    max_grad_norm: Positive = 1.0
    ppo_epochs: Count = 1
    """How often a step goes over its batch."""

    mini_batches: Count = 1
    """Updates of one such pass. With a single update a step, no clip ever binds."""

    micro_batch_tokens: Count = 682
    """Tokens of one forward and backward, padding included: what bounds a step's memory. More rows
    at a time cost a small model more in padding than they save. One row may be longer."""

    importance: ImportanceLevel = "token"
    """Correction of what the engine's probabilities differ from the trainer's."""

    importance_cap: Positive = 2.0
    """Truncation of the engine-to-trainer importance ratio."""

    kl_coefficient: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0
    """Weight of the divergence from the model that the run starts from; 0 needs no reference."""

    loss_normalizer_tokens: Count = 12
    """Expected sampled tokens per rollout: the constant that token losses are divided by where the
    objective's ``aggregation`` is ``constant``."""

    imitation_weight: Annotated[float, msgspec.Meta(ge=0.0)] = 8.0
    """Weight of the reference where every rollout of a group failed; 0 turns imitation off."""

    replay_size: NonNegative = 256
    """References kept for replay."""

    replay_per_step: NonNegative = 24
    replay_weight: Annotated[float, msgspec.Meta(ge=0.0)] = 2.0
    refill_zero_variance: bool = False
    """Whether a group that teaches nothing, because its rewards are all equal and no reference is
    imitated, is replaced by another. The objective ``dapo`` always does."""

    max_staleness: NonNegative = 2
    """Policy versions that a rollout may be behind the learner when it is trained on."""

    checkpoint_every: Count = 10
    """Steps between checkpoints."""

    threads: Count = 1
    devices: Count = 1
    """Processes, or GPUs of one node, over which weights, gradients and optimizer are split."""

    device_timeout_s: Positive = 600.0
    """With several ``devices``: how long one waits for another before the step is given up."""


class DeliveryConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Proof that every engine serves the policy version that was published."""

    tolerance: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0
    """Nats by which learner and engine may differ on a token of the probe. 0 chooses by precision
    (`coevolve.delivery.tolerance_of`)."""

    timeout_s: Positive = 300.0
    """Seconds after publication by which each rollout engine has to have proven the version, or a
    newer one. An engine that is started again needs to be back within them."""


class HdlConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Testbenches for hardware designs, graded by coverage (domain ``hdl``)."""

    designs: str = ""
    """Folder with one folder a design; empty for the project's own ``designs/``."""

    form: SubmissionForm = "testbench"
    """What the policy writes."""

    rounds: Count = 2
    """Steps on a design, each from a testbench of the one before, until it is begun anew. The first
    is direct inference. (LLM4Cov's online runs: K = 2.)"""

    next_state: Literal["worst", "median", "best", "uniform"] = "worst"
    """Which testbench of a group the next step starts from: of those with coverage below 100 % the
    one with the least, the (lower) median, the most, or any; where there is none, a failed one."""

    warm_up_groups: NonNegative = 0
    """The first so many groups are drawn from the grammar of ``policy.model: tiny_hdl``, all edits
    alike likely, and not from the policy: those that gain are what it imitates first."""

    vary_instance: bool = False
    """Whether designs' instances are to be called ``dut``, ``uut`` or ``inst_<top>``, a third of
    the designs each, rather than ``dut`` all: no name is then learnt by heart."""

    rejection: RejectionConfig = RejectionConfig()
    evaluation_rounds: Count = 4
    """Steps on each held-out design, the first one included. (LLM4Cov: 1 direct + 3 agentic.)"""

    evaluation_temperature: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0
    """At which these are sampled; 0 is greedy. A policy that sees little more than coverage needs
    chance, or it tries what gained nothing again."""

    memory: Literal["best", "last"] = "best"
    """Which testbench the next of these starts from. ``best``: a worse one is thrown away."""

    feedback_characters: Count = 3000
    """Of what a prompt tells of uncovered points."""

    limits: SimulationLimits = SimulationLimits()
    concurrent: Count = 2
    """Evaluations that one simulator worker runs at a time."""


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
    domain: Literal["bfcl", "hdl"] = "bfcl"
    """``bfcl``: tools, on the Berkeley Function-Calling Leaderboard's simulators. ``hdl``:
    testbenches, on Verilator."""

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
    tasks: TasksConfig = TasksConfig()
    hdl: HdlConfig = HdlConfig()
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
