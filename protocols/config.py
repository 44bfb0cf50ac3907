"""The shape of a run file. One struct per part; every default is a tested setting."""

from typing import Annotated, Any, Literal

import msgspec

from protocols.evolution_config import (
    PoolConfig,
    SignalsConfig,
    SynthesizerConfig,
    ValidatorConfig,
)
from protocols.followers_config import PrometheusConfig, TrackersConfig
from protocols.journal import Durability
from protocols.learner_config import LearnerConfig
from protocols.learning import WeightsFormat
from protocols.numbers import (
    MOST_MB,
    MOST_TOKENS,
    AtOnce,
    Count,
    Megabytes,
    NonNegative,
    NonNegativeSeconds,
    Processes,
    Seconds,
    Seed,
    Tokens,
    TrainedTemperature,
    Tries,
)


class ChatConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the run talks to a policy with a chat template; the tiny policy has its own format."""

    tools: Literal["template", "prompt", "signatures"] = "template"
    """How the policy learns which tools there are. ``template``: its chat template lists them, and
    it writes calls in the template's form. ``prompt``: the system message lists them, and it writes
    a list of Python calls; choose this for templates without tools. ``signatures``: the same with
    tools as lines of Python, without what their documents say of parameters, in a third of the
    tokens or less; choose this for small models and short contexts."""

    joined_calls: bool = False
    """Whether a message of a reference makes all calls that need no answer to an earlier one: those
    whose values the conversation has said so far. Otherwise each message makes one call. A small
    model that learns to call one by one tends to make one too many. Needs ``tools: prompt`` or
    ``signatures``."""

    thinking: bool = False
    """The template's ``enable_thinking``. Thoughts stay in the context."""

    system: str = ""
    """System message. Empty uses the template's own, if it has one."""

    answered_errors: Annotated[int, msgspec.Meta(ge=-1, le=1000)] = -1
    """Maximum number of malformed calls of an attempt that are answered by what is wrong with them,
    as a tool answers; the policy then goes on. One more ends the attempt. -1 chooses: 3, and 0 for
    a benchmark in whose own loop a message that cannot be read ends the turn, which is then graded.
    The tiny policy's format has no such answers."""


class PolicyConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model that learns."""

    model: str = "tiny"
    """``tiny`` for the shipped policy, a folder in Hugging Face layout, or the name of a model in
    Hugging Face's cache, for example ``Qwen/Qwen3-4B-Instruct-2507``. Nothing is downloaded."""

    tiny_random: bool = False
    """Whether the run trains a tiny model of the same architecture, with random weights and on the
    CPU, in place of the model. Use it to try a run file; it learns nothing useful."""

    train: WeightsFormat = "full"
    """Which weights learn. ``full``: all of them. ``lora``: an adapter beside them."""

    precision: Literal["fp32", "bf16"] = "fp32"
    """Arithmetic of the learner. ``bf16`` multiplies in bfloat16 and keeps the weights that learn
    in float32. With an adapter the frozen weights are in bfloat16, too."""

    device: Literal["cpu", "cuda"] = "cpu"
    """Where the learner computes."""

    gradient_checkpointing: bool = False
    """Whether the backward pass recomputes each layer's activations in place of keeping them. It
    costs a third more arithmetic and saves most of the memory of activations."""

    lora_rank: Annotated[int, msgspec.Meta(ge=1, le=65_536)] = 16
    """Rank of the adapter's matrices, with ``train: lora``."""

    lora_alpha: Count = 32
    """Scale of the adapter: it adds its product times ``lora_alpha / lora_rank``."""

    lora_targets: tuple[str, ...] = ()
    """Names of the layers that get an adapter, for example ``q_proj``. Empty means every linear
    layer except the output head and the experts."""

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
    """Precision of the weights that sample. ``float32`` is the learner's own arithmetic."""

    threads: Processes = 1
    """CPU threads of the arithmetic. More than one helps only above about 20 million parameters."""


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
    ``bfloat16`` takes half the memory, and its logprobs differ by some thousandths."""

    deliver: Literal["merged", "adapter"] = "merged"
    """How vLLM serves an adapter. ``merged``: added into the weights, at no cost per token.
    ``adapter``: beside the weights; a new version is switched to in milliseconds whatever the
    model's size, and every request keeps the adapter that it began with."""

    kv_cache_mb: Annotated[int, msgspec.Meta(ge=0, le=MOST_MB)] = 256
    """Megabytes for the cache of keys and values. 0, on a GPU only: all that
    ``gpu_memory_utilization`` leaves."""

    gpu_memory_utilization: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.9
    """Share of a GPU's memory that one engine takes if ``kv_cache_mb`` is 0."""

    block_size: Annotated[int, msgspec.Meta(ge=32, le=1024, multiple_of=32)] = 32
    """Tokens per block of the cache: a block is stored, and found again, as a whole."""

    batch_tokens: Annotated[int, msgspec.Meta(ge=256, le=MOST_TOKENS)] = 2048
    """Maximum tokens that one step computes."""

    threads: Processes = 1
    """CPU threads of the arithmetic. More than one helps only above about 20 million parameters."""

    gpus: Annotated[float, msgspec.Meta(ge=0.0, le=1024.0)] = 0.0
    """GPUs of each engine, as Ray counts them. 0 uses the CPU, and 1 a GPU. A share, such as 0.5,
    leaves the rest of the GPU to others, for example to a learner with ``learner.gpus``; limit the
    memory by ``kv_cache_mb`` then. An engine uses one GPU at most: for more GPUs raise
    ``rollout.actors``."""

    sleeps: bool = False
    """Whether engines and learner take turns on the GPU that they share. While the learner
    computes a step, engines keep their weights in main memory and drop their caches; requests in
    flight wait, and continue afterwards. On a CPU they take turns, but no memory is freed."""

    enforce_eager: bool = False
    """Whether a GPU runs the model's operations one by one, without compiling them and without CUDA
    graphs: a faster start, less memory, and slower tokens. A CPU always does."""

    step_timeout_s: Seconds = 120.0
    """Seconds after which a step, or a change of weights, counts as stuck; the run then replaces
    the engine."""

    self_test: bool = True
    """Whether the engine compares its logprobs with those of transformers, on the CPU, before it
    serves."""


Engine = TransformersEngine | VllmEngine


class RolloutConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rollout actors and how they sample."""

    actors: Processes = 1
    """Processes that make rollouts, each with its own engine. ``coevolve attach scale`` changes
    the number during the run."""

    actors_per_node: Annotated[int, msgspec.Meta(ge=0, le=1024)] = 0
    """Rollout actors on each node that ``placement.rollout`` allows, as far as it has room for
    them, with ``actors`` as the maximum on all nodes. A node that joins the cluster gets its actors
    during the run, and the actors of a node that leaves are let go. 0: Ray chooses nodes for
    ``actors`` actors, and starts those of a lost node on others."""

    engine: Engine = TransformersEngine()
    """The engine that samples, for rollouts and for evaluation."""

    group_size: Annotated[int, msgspec.Meta(ge=2, le=65_536)] = 8
    """Rollouts of one task that are compared with each other (K)."""

    concurrent: AtOnce = 96
    """Rollouts in flight per actor, beside attempts that are scored (``evaluator.concurrent``)."""

    temperature: TrainedTemperature = 1.0
    """Sampling temperature of training rollouts. vLLM samples at no lower one than 0.01."""

    max_tokens: Tokens = 256
    """Maximum tokens of a whole conversation, prompt included."""

    max_call_tokens: Tokens = 40
    """Maximum tokens of one message of the policy, with all its calls."""

    max_calls_per_turn: Count = 4
    """Maximum calls within one turn of the user; an attempt that makes more has failed."""

    max_conversations: Count = 16
    """Maximum conversations of one attempt. An agent program may have several: those of helpers,
    and those that a summary or an edited history begins. An attempt that begins more has failed."""

    in_flight_groups: NonNegative = 0
    """Groups that are requested and that the learner has not consumed. 0 means as many as staleness
    allows: ``learner.groups_per_step * (1 + learner.max_staleness)``."""

    tries: Tries = 3
    """Attempts at one rollout that infrastructure failures ended, before it is a failed rollout. An
    attempt of an agent program does not count if others may have ended its process."""


class SimulatorConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The simulator pool."""

    workers: Processes = 2
    """Processes that simulate."""

    timeout_s: Seconds = 10.0
    """Seconds that one batch of commands may take; then the worker's child process is replaced."""

    memory_mb: Megabytes = 512
    """Megabytes of address space of a child process."""


class DeliveryConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Proof that every engine serves the policy version that was published."""

    tolerance: Annotated[float, msgspec.Meta(ge=0.0, le=1000.0)] = 0.0
    """Nats by which learner and engine may differ on the probe: on each token if both compute in
    float32, otherwise on average. 0 chooses by precision
    (`coevolve.delivery.probe.tolerance_of`)."""

    sampler_tolerance: Annotated[float, msgspec.Meta(ge=0.0, le=1000.0)] = 0.0
    """Nats by which learner and engine may differ, on average, on tokens that the learner's present
    weights sampled. 0 chooses by precision (`coevolve.delivery.sampler.tolerance_of`)."""

    timeout_s: Seconds = 300.0
    """Seconds after publication within which each rollout engine must prove that version or a newer
    one. An engine that restarts must be back within them. An engine that is added during the
    run may take longer to its first proof."""


class EvaluatorConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Scoring on held-out tasks."""

    every: Count = 40
    """Steps between evaluations. The first and the last version are always scored."""

    at_stop_s: NonNegativeSeconds = 300.0
    """How long a run that is stopped may take to score its newest version, seconds; 0: it does not.
    SIGTERM and a closed terminal leave no time for that."""

    concurrent: AtOnce = 128
    """Attempts at held-out tasks in flight, on each engine that makes them."""

    engine: Literal["rollout", "own"] = "rollout"
    """Engine that samples the attempts. ``rollout``: those of the rollout actors. Each serves a
    version that is scored until its scores are complete. ``own``: another engine, which takes as
    much memory, and as many GPUs, as that of a rollout actor; it scores while the others move to
    newer versions."""

    fresh: NonNegative = 0
    """Maximum number of held-out tasks that each evaluation also attempts under other names, for
    the instance gap: always the first ones, and the same names. As many random tasks of the last
    256 steps are attempted as given and under other names. 0: none. Needs an environment that makes
    instances."""

    @property
    def conversations(self) -> int:
        """Return how many conversations its own engine has at a time, at most; 0 without one."""
        return self.concurrent if self.engine == "own" else 0


Place = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(?!.*://([^/\s]*@|[^/\s]*:[^\s]*@|[^\s]*\?[^\s]*=))",
        description="a path, or a URL without user, password and query",
    ),
]


class StoreConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The journal."""

    durability: Durability = "process"
    map_size_gb: Annotated[int, msgspec.Meta(ge=1, le=65536)] = 1024
    """Gigabytes of address space that the journal's map reserves, and a reader at least 1024 if it
    can; the file is as large as its content."""

    retain_gb: Annotated[float, msgspec.Meta(gt=0.0, le=65536.0)] = 32.0
    """Gigabytes beyond which the journal drops the oldest rollouts, and then what is older than all
    rollouts left and nothing needs: requests, step reports, and the lineage of tasks that left the
    pool. It keeps all scores and versions; ``metrics.jsonl`` keeps the metrics of all steps."""

    retain_records: Annotated[int, msgspec.Meta(ge=256, le=10**9)] = 1000
    """Newest records of each of these kinds that stay nevertheless."""

    lease_s: Seconds = 120.0
    """Seconds of silence after which a member loses the work that it took: its process ended, was
    stopped, or stands still. A living one keeps it, however long an attempt lasts."""

    copies: Place = ""
    """Folder for copies of the run: a path, or a URL that fsspec knows, such as
    ``s3://BUCKET/FOLDER``. The URL is recorded, so credentials do not belong into it; fsspec takes
    them from the environment or its own files. The run is copied after each checkpoint of
    ``learner.checkpoint_every`` and at its end, and the two newest copies stay. On another machine
    ``coevolve resume NAME --from FOLDER`` continues it. Empty makes no copies."""


class WatchdogConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Notices that nothing moves, and what fails again and again."""

    quiet_s: Seconds = 60.0
    """Seconds without a new record, or with failed rollouts only, after which the run says who
    waits for whom."""

    unable_s: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 240.0
    """Seconds in which every rollout of at least three groups fails, after which the run ends with
    the reason, because a resumption would meet it again. Before the first rollout of a start an
    eighth of that is enough if most fail for one reason, else half. What a policy does wrong is no
    such failure. 0: the run tries on without end."""

    attempts: Annotated[int, msgspec.Meta(ge=2, le=1000)] = 3
    """Attempts at one unit of work (a rollout, a signal, a candidate, a group, a score) that raise
    an unexpected error or kill the process; if the process ended at the last one, too, one more is
    made. Then the unit is a dead letter, which ``coevolve attach letters`` lists, and the run goes
    on without it."""

    restart_s: Seconds = 180.0
    """Seconds that a part may take to restart, on its own node or on another; then the run ends. A
    run with several rollout actors continues with the others, and uses a late one again; it also
    continues without an optional part. Loading a large model may take minutes."""


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The Ray cluster."""

    address: Annotated[
        str,
        msgspec.Meta(
            pattern=r"^(ray://)?[^\s/@]*\Z",
            description="HOST:PORT of a cluster's head, without user and password",
        ),
    ] = ""
    """Address of a running cluster, as HOST:PORT of its head. Empty: the one that the variable
    ``RAY_ADDRESS`` names, as in a Ray job or on Kubernetes; without it a local one, which ends with
    the run. ``local`` always starts a local one."""

    interface: str = ""
    """Network interface, such as ``eth0``, at which other machines reach a local cluster, for
    example with ``coevolve attach`` and its ``--address``. Ray then listens on all interfaces, and
    its token alone protects it. Empty: it listens on loopback only."""

    variables: tuple[str, ...] = ()
    """Environment variables that the processes of a local cluster get although their names say that
    they hold secrets (``..._KEY``, ``..._TOKEN`` and the like). Keys of endpoints need no entry."""

    fork: bool = True
    """Whether the processes of a local cluster are forks of one that has imported torch and the
    other libraries. They then start in a second instead of several, and share the memory that the
    imports take. Engines of vLLM are no forks, and with ``policy.device: cuda`` nothing is."""

    stop_s: Seconds = 8.0
    """How long an interrupted run may take to finish the current step, seconds. After that the
    process ends, and a resumed run repeats the step. ``coevolve attach stop`` has no such limit."""


Nodes = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(launcher|any|[A-Za-z0-9][\w./-]*=[A-Za-z0-9][\w.-]*)\Z",
        description="`launcher`, `any`, or a node label such as `group=gpu`",
    ),
]


PlacedPart = Literal[
    "learner",
    "rollout",
    "evaluator",
    "simulator",
    "curriculum",
    "signals",
    "synthesizer",
    "validator",
]
"""Kinds of parts that a run places on nodes."""


class PlacementConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """On which nodes of a cluster the parts run; the journal is always on the launcher's.

    ``launcher`` is the node of the launcher. ``any`` spreads over all nodes. ``label=value`` are
    the nodes that were started with ``ray start --labels label=value``. Without ``cluster.address``
    there is only one node.
    """

    rollout: Nodes = "any"
    """Nodes of the rollout actors, each with its engine."""

    evaluator: Nodes = "any"
    """Nodes of the evaluator, and of its engine with ``evaluator.engine: own``."""

    learner: Nodes = "any"
    """Nodes of the learner's processes (``learner.devices``), which use as few of them as have
    room."""

    simulator: Nodes = "any"
    """Nodes of the simulator pool."""

    curriculum: Nodes = "launcher"
    """Nodes of the part that requests rollouts."""

    signals: Nodes = "launcher"
    """Nodes of the part that finds weaknesses in rollouts."""

    synthesizer: Nodes = "launcher"
    """Nodes of the part that makes tasks."""

    validator: Nodes = "launcher"
    """Nodes of the part that judges candidates."""

    cpus: dict[PlacedPart, Annotated[float, msgspec.Meta(gt=0.0, le=1024.0)]] = {}
    """CPUs that Ray reserves for each process of a kind of part, for example ``{rollout: 4}``. None
    are reserved for the others, which share what is there."""


MAX_SEEDS = 1000
"""Seed tasks of an environment without the setting ``seeds``, which is its maximum of them."""


class RunConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole run: the root of every file in ``configs/``."""

    name: Annotated[
        str,
        msgspec.Meta(
            pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z",
            description="1 to 100 letters, digits, `.`, `_` and `-`, the first a letter or digit",
        ),
    ]
    """The run's name, and the name of its folder under ``runs/``."""

    seed: Seed = 0
    """Seeds sampling, the order of tasks, and random weights. Parts that run side by side finish in
    an order of their own, so equal seeds do not make equal runs."""

    environment: dict[str, Any] = {}
    """What the policy acts in. ``use`` names it; the other settings belong to the environment that
    it names."""

    arm: Literal["full", "random", "placebo", "coverage", "oracle", "uniform", "static"] = "full"
    """Where training tasks come from.

    ``full``: seed tasks, and tasks synthesized where signals point. ``random``: the same number of
    syntheses, which explore freely. ``placebo``: the same prompts, each with the evidence of
    another task or pattern, drawn at random. ``coverage``: as many syntheses, each about a cell of
    the environment, all cells alike. ``oracle``: the same, with cells chosen by held-out scores,
    which shows what knowledge of the policy could bring at most. ``uniform``: a fresh task of the
    grammar for every group, all skills alike. ``static``: the seed tasks alone.
    """

    evolve_every: NonNegative = 0
    """Steps between two additions to the pool, after all signals of those steps are settled, as in
    CoEvolve (F). 0: each task joins when it is admitted, while training goes on. Arms that make no
    tasks leave it out of account."""

    evolve_wait_s: Seconds = 600.0
    """Seconds that training waits for synthesis, with ``evolve_every``, before it goes on."""

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
    trackers: TrackersConfig = TrackersConfig()
    prometheus: PrometheusConfig = PrometheusConfig()
    cluster: ClusterConfig = ClusterConfig()
    placement: PlacementConfig = PlacementConfig()

    @property
    def uses(self) -> str:
        """Return the name of the environment."""
        return self.environment.get("use", "")

    @property
    def remembered_tasks(self) -> int:
        """Return how many tasks a part remembers at most: seed tasks and synthesized ones."""
        seeds = self.environment.get("seeds", MAX_SEEDS)
        return self.pool.remembered + (seeds if isinstance(seeds, int) else MAX_SEEDS)

    @property
    def synthesizes(self) -> bool:
        """Return whether the run's arm makes tasks of its own."""
        return self.arm in ("full", "random", "placebo", "coverage", "oracle")

    @property
    def cycle_steps(self) -> int:
        """Return ``evolve_every``; 0 if the arm makes no tasks that training could wait for."""
        return self.evolve_every if self.synthesizes else 0

    @property
    def conversations(self) -> int:
        """Return how many conversations each rollout engine has at a time, at most."""
        scored = self.evaluator.concurrent if self.evaluator.engine == "rollout" else 0
        return self.rollout.concurrent + scored

    @property
    def most_groups_in_flight(self) -> int:
        """Return how many groups may be requested and unconsumed without any becoming too old.

        A group requested at version v is consumed after at most that many others, so at the latest
        by step v + 1 + max_staleness, which trains version v + max_staleness.
        """
        return self.learner.groups_per_step * (1 + self.learner.max_staleness)

    @property
    def most_rollouts_in_flight(self) -> int:
        """Return how many rollouts may be requested and unconsumed."""
        groups = self.rollout.in_flight_groups or self.most_groups_in_flight
        return groups * self.rollout.group_size
