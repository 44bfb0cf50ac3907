"""Estimates by formulas, before a run starts, the memory, tokens and disk space that it needs.

If a number depends on lengths, it is the maximum that the settings allow. None means unknown here:
the sizes of an unsupported architecture, or of a GPU. Fragmentation, CUDA's own gigabyte and memory
of loaded libraries are left out.

Letters: P parameters, T trained parameters, L layers, K entries of a token's keys in one layer, b
bytes of a number.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from coevolve.estimate.learner_memory import learner_memory
from coevolve.estimate.sizes import BF16, FP32, Bytes, summed, times
from coevolve.estimate.step_time import StepTime, Throughput, step_time
from coevolve.learning.objective_registry import objective_of
from coevolve.models.architecture import Architecture, ModelConfig, architecture
from coevolve.models.model_files import shapes_of
from coevolve.models.model_folder import model_config, whole_model
from protocols.config import PolicyConfig, RunConfig, VllmEngine

LIBRARIES = 480_000_000
"""Resident bytes of a process that has imported torch and transformers, on a CPU."""

ROW_SUM_BYTES = 25
"""Bytes of a weight while its row is summed for the proof of delivery, one matrix at a time: the
weight itself without tiny values, two 64-bit integers, and masks."""

MOMENTS = 2 * FP32
"""Bytes of AdamW's moments for each trained weight."""

TOKEN_COLUMNS = 13
"""Bytes of a token in the journal: id, mask, logprob and version (`protocols.rollouts.Tokens`)."""

RECENT_VERSIONS = 3
"""Versions kept beyond the staleness bound: the newest and two spares; see
`coevolve.learning.versions`."""

STEPS_A_DAY = 24 * 60
"""Assumes one step per minute, because the real duration is unknown before the first step."""


@dataclass(frozen=True, kw_only=True)
class Disk:
    """Bytes that a run adds to its folder."""

    version: Bytes
    checkpoint: Bytes
    journal_a_step: int
    """Maximum bytes of the token columns of one step's rollouts."""

    whole_run: Bytes
    """Bytes at the end of the run: versions that are still needed, checkpoints, and the journal."""

    a_day: Bytes
    """Bytes per day of an endless run with one step per minute."""

    copies: Bytes
    """Bytes of the two copies at ``store.copies``, at the end of the run; 0 without copies."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The resources that a run needs. Memory is in bytes, by purpose."""

    parameters: int | None
    trained: int | None
    learner: Mapping[str, Bytes]
    engine: Mapping[str, Bytes]
    cache_bytes_a_token: Bytes
    cached_tokens: int | None
    """Tokens whose keys and values fit into an engine's cache."""

    rollout_tokens: int
    """Maximum tokens of one step's rollouts."""

    trained_tokens: int
    """Maximum tokens for which one step computes gradients."""

    disk: Disk
    host: Mapping[str, Bytes]
    """Main memory for tensors: of the learner's first process, and of each engine's. On a CPU, this
    comes besides what its device holds."""

    processes: Mapping[str, Bytes]
    """Peak main memory of the learner's process and of each engine's, on a CPU, with libraries;
    empty for GPUs and for vLLM."""

    throughput: Throughput
    step: StepTime | None
    """Duration of a step by ``throughput``; None without GPUs."""


def estimate(
    config: RunConfig,
    *,
    imitates_others: bool = False,
    own: Mapping[str, ModelConfig] | None = None,
    throughput: Throughput | None = None,
) -> Estimate:
    """Return the resources that a run of ``config`` needs.

    ``imitates_others`` says whether the run imitates texts that the policy did not write. ``own``
    are the models that the run's environment makes, by name. ``throughput`` is what a GPU does;
    without it, it is assumed.

    Raises:
        ConfigError: The model is not on disk, and coevolve does not know its sizes.
    """
    made = (own or {}).get(config.policy.model)
    sizes = architecture(made or model_config(config.policy))
    count = parameters(config.policy, sizes)
    learning = trained(config.policy, sizes, count)
    cache = cache_bytes_a_token(config, sizes)
    engine = engine_memory(config, count, cache)
    speed = throughput or Throughput()
    host = host_memory(config, sizes, count, learning)
    learner = learner_memory(config, sizes, count, learning, moments(config, imitates_others))
    return Estimate(
        parameters=count,
        trained=learning,
        learner=learner,
        engine=engine,
        cache_bytes_a_token=cache,
        cached_tokens=cached_tokens(config, cache),
        rollout_tokens=rollout_tokens(config),
        trained_tokens=trained_tokens(config),
        disk=disk(config, learning, moments(config, imitates_others)),
        host=host,
        processes=process_memory(config, learner, engine, host),
        throughput=speed,
        step=step_time(config, sizes, count, engine, cache, speed),
    )


def parameters(policy: PolicyConfig, sizes: Architecture | None) -> int | None:
    """Return P, counted in the weights on disk or computed by `Architecture.parameters`."""
    folder = whole_model(policy.model)
    files = sorted(folder.glob("*.safetensors")) if folder else []
    if files:
        return sum(math.prod(shape) for file in files for shape in shapes_of(file).values())
    return sizes.parameters if sizes else None


def trained(policy: PolicyConfig, sizes: Architecture | None, count: int | None) -> int | None:
    """Return T: P, or for an adapter L r (outputs + inputs), summed over the adapted layers."""
    if policy.train == "full":
        return count
    if sizes is None or not set(policy.lora_targets) <= sizes.linear.keys():
        return None
    adapted = policy.lora_targets or tuple(sizes.linear)
    ends = sum(sum(sizes.linear[name]) for name in adapted)
    return sizes.num_hidden_layers * policy.lora_rank * ends


def cache_bytes_a_token(config: RunConfig, sizes: Architecture | None) -> Bytes:
    """Return the bytes of a token's keys and values in an engine: 2 L K b."""
    if sizes is None:
        return None
    return 2 * sizes.num_hidden_layers * sizes.key_size * _engine_width(config)


def engine_memory(config: RunConfig, count: int | None, cache: Bytes) -> Mapping[str, Bytes]:
    """Return the bytes of an engine's device, by purpose: weights b P, and the cache.

    The cache has the configured size; with transformers, the size of all concurrent conversations
    at their maximum length. It is None for vLLM without ``kv_cache_mb``, which then uses a share of
    the GPU's memory.
    """
    engine = config.rollout.engine
    if not isinstance(engine, VllmEngine):
        held: Bytes = times(cache, config.conversations * config.rollout.max_tokens)
    else:
        held = (engine.kv_cache_mb << 20) or None
    return {"weights": times(count, _engine_width(config)), "keys and values": held}


def process_memory(
    config: RunConfig,
    learner: Mapping[str, Bytes],
    engine: Mapping[str, Bytes],
    host: Mapping[str, Bytes],
) -> Mapping[str, Bytes]:
    """Return the peak bytes of the processes that hold a model in main memory.

    The learner's is the larger of reading the model and a step. An engine's holds its weights and
    cache beside a version that it reads.
    """
    if config.policy.device != "cpu" or isinstance(config.rollout.engine, VllmEngine):
        return {}
    step, reading = summed(*learner.values()), host["learner"]
    most = None if step is None or reading is None else max(step, reading)
    return {
        "learner": summed(LIBRARIES, most),
        "engine": summed(LIBRARIES, *engine.values(), host["engine"]),
    }


def host_memory(
    config: RunConfig, sizes: Architecture | None, count: int | None, learning: int | None
) -> Mapping[str, Bytes]:
    """Return the bytes of tensors in main memory while models and versions are read.

    The learner reads the model, 4 P, or b P beside an adapter. An engine's process holds a
    version while it reads it, 4 T; beside an adapter it also has the initial weights in float32,
    4 P for the comparison, and 4 P more to merge it. The self-test reads 4 P before. The proof of
    delivery of transformers' engine sums the rows of the largest matrix, the embedding.
    """
    policy, engine = config.policy, config.rollout.engine
    frozen = BF16 if policy.train == "lora" and policy.precision == "bf16" else FP32
    reading = times(learning, FP32)
    if policy.train == "lora":
        merged = not isinstance(engine, VllmEngine) or engine.deliver == "merged"
        reading = summed(reading, times(count, 2 * FP32 if merged else FP32))
    if not isinstance(engine, VllmEngine):
        matrix = sizes and sizes.vocab_size * sizes.hidden_size
        reading = summed(reading, times(matrix, ROW_SUM_BYTES))
    tested = times(count, FP32) if isinstance(engine, VllmEngine) and engine.self_test else 0
    known = None if reading is None or tested is None else max(reading, tested)
    return {"learner": times(count, frozen), "engine": known}


def cached_tokens(config: RunConfig, cache: Bytes) -> int | None:
    """Return the number of tokens that fit into vLLM's cache; None if its size is not set."""
    engine = config.rollout.engine
    if cache is None or not isinstance(engine, VllmEngine) or not engine.kv_cache_mb:
        return None
    return (engine.kv_cache_mb << 20) // cache


def rollout_tokens(config: RunConfig) -> int:
    """Return groups per step times rollouts per group times tokens of the longest conversation."""
    groups = config.learner.groups_per_step * config.rollout.group_size
    return groups * config.rollout.max_tokens


def trained_tokens(config: RunConfig) -> int:
    """Return the tokens of a step's rollouts and replayed references, in every epoch."""
    replayed = config.learner.imitation.replay_per_step * config.rollout.max_tokens
    return config.learner.ppo_epochs * (rollout_tokens(config) + replayed)


def moments(config: RunConfig, imitates_others: bool) -> int:
    """Return the bytes of the optimizers' moments for each trained weight."""
    learner = config.learner
    needs_own = learner.only_imitates or objective_of(learner).is_on_policy
    imitates = learner.imitation.weight > 0 or (imitates_others and needs_own)
    return MOMENTS * (imitates + (not learner.only_imitates))


def disk(config: RunConfig, learning: int | None, moment_bytes: int) -> Disk:
    """Return the bytes that the run adds to its folder.

    A version has 4 T, a checkpoint 12 T, or 20 T if references are imitated. After N steps the
    folder has the scored versions (every E-th, the first and the last), the recent ones, the
    checkpoints that `most_checkpoints` counts, and the journal, which keeps rollouts up to its
    limit. A day is the same for 1,440 steps, without recent versions, because new ones replace
    them. A run that is copied has the journal twice while it is sent, and its copies share all but
    the journal, the newest version and the newest checkpoint.
    """
    version, checkpoint = times(learning, FP32), times(learning, FP32 + moment_bytes)
    journal = TOKEN_COLUMNS * rollout_tokens(config)
    steps = config.learner.steps
    scored = len({*range(0, steps + 1, config.evaluator.every), steps})
    recent = config.learner.max_staleness + RECENT_VERSIONS
    journals = 2 if config.store.copies else 1
    copied = summed(
        times(version, min(steps + 1, scored + 2)),
        times(checkpoint, most_checkpoints(config, steps)),
        2 * _retained(config, journal * steps),
    )
    return Disk(
        version=version,
        checkpoint=checkpoint,
        journal_a_step=journal,
        whole_run=summed(
            times(version, min(steps + 1, scored + recent)),
            times(checkpoint, most_checkpoints(config, steps)),
            journals * _retained(config, journal * steps),
        ),
        a_day=summed(
            times(version, STEPS_A_DAY // config.evaluator.every),
            times(checkpoint, most_checkpoints(config, STEPS_A_DAY)),
            journals * _retained(config, journal * STEPS_A_DAY),
        ),
        copies=copied if config.store.copies else 0,
    )


def most_checkpoints(config: RunConfig, steps: int) -> int:
    """Return the maximum number of checkpoints in the run's folder.

    They are N / C of those that are kept, at most ``learner.keep_checkpoints`` and the best one;
    and the newest, while the next one is written.
    """
    learner = config.learner
    best = int(learner.guard.action != "none")
    return min(steps // learner.checkpoint_every, learner.keep_checkpoints + best) + 2


def _retained(config: RunConfig, size: int) -> int:
    return min(size, int(config.store.retain_gb * 2**30))


def _engine_width(config: RunConfig) -> int:
    return FP32 if config.rollout.engine.dtype == "float32" else BF16
