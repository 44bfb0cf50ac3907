"""What a run will take, told before it is started: memory, tokens and disk, by formulas.

Every number is of the model that the run file names, also where a tiny random one takes its place.
Where lengths decide, it is the most that the settings allow. None stands for what cannot be known
here: the sizes of an architecture that is not covered, or of a GPU. Fragmentation, CUDA's own
gigabyte and what libraries load are left out.

Letters: P parameters, T of them that learn, L layers, H hidden size, Q and K entries of a token's
queries and keys in one layer, F of its feed-forward network, V vocabulary, M tokens of a
micro-batch, b bytes of a number.
"""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from coevolve.models.architecture import Architecture, ModelConfig, architecture
from coevolve.models.model_folder import model_config, whole_model
from protocols.config import PolicyConfig, RunConfig, VllmEngine
from protocols.objectives import Dpo, NoObjective, Sft

FP32, BF16 = 4, 2
MOMENTS = 2 * FP32
"""Bytes that AdamW keeps of each number that learns."""

LOGITS_AT_ONCE = 2**26
"""As in `coevolve.learning.scoring`, which loads torch."""

LOGIT_COPIES = 4
"""Logits, and about three times as much for the way back."""

TOKEN_COLUMNS = 13
"""Bytes of a token in the journal: id, mask, logprob and version (`protocols.rollouts.Tokens`)."""

RECENT_VERSIONS = 3
"""Beyond the staleness bound: the newest, and two spare ones (`coevolve.learning.versions`)."""

STEPS_A_DAY = 24 * 60
"""At a step a minute; what a step takes is known once one was taken."""

Bytes = int | None


@dataclass(frozen=True, kw_only=True)
class Disk:
    """Bytes that a run adds to its folder."""

    version: Bytes
    checkpoint: Bytes
    journal_a_step: int
    """Token columns of a step's rollouts, at most."""

    whole_run: Bytes
    """At its end: versions that are still needed, checkpoints, and the journal."""

    a_day: Bytes
    """Of a run that takes a step a minute for ever."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a run takes. Memory in bytes, by purpose."""

    parameters: int | None
    trained: int | None
    learner: Mapping[str, Bytes]
    engine: Mapping[str, Bytes]
    cache_bytes_a_token: Bytes
    cached_tokens: int | None
    """Tokens whose keys and values fit into an engine's cache."""

    rollout_tokens: int
    """Of one step's rollouts, at most."""

    trained_tokens: int
    """That one step computes gradients for, at most."""

    disk: Disk


def estimate(
    config: RunConfig,
    *,
    imitates_others: bool = False,
    own: Mapping[str, ModelConfig] | None = None,
) -> Estimate:
    """Return what a run of ``config`` takes.

    With ``imitates_others`` the run imitates what somebody else than the policy writes. ``own`` are
    the models that the run's environment makes, by name.

    Raises:
        ConfigError: The model is neither on disk nor one that is known.
    """
    made = (own or {}).get(config.policy.model)
    sizes = architecture(made or model_config(config.policy))
    count = parameters(config.policy, sizes)
    learning = trained(config.policy, sizes, count)
    cache = cache_bytes_a_token(config, sizes)
    return Estimate(
        parameters=count,
        trained=learning,
        learner=learner_memory(config, sizes, count, learning, moments(config, imitates_others)),
        engine=engine_memory(config, count, cache),
        cache_bytes_a_token=cache,
        cached_tokens=cached_tokens(config, cache),
        rollout_tokens=rollout_tokens(config),
        trained_tokens=trained_tokens(config),
        disk=disk(config, learning, moments(config, imitates_others)),
    )


def parameters(policy: PolicyConfig, sizes: Architecture | None) -> int | None:
    """Return P: of the weights on disk, or by the sizes (`Architecture.parameters`)."""
    folder = whole_model(policy.model)
    files = sorted(folder.glob("*.safetensors")) if folder else []
    if files:
        return sum(map(_numbers, files))
    return sizes.parameters if sizes else None


def trained(policy: PolicyConfig, sizes: Architecture | None, count: int | None) -> int | None:
    """Return T: P, or with an adapter L r (outputs + inputs), summed over the adapted layers."""
    if policy.train == "full":
        return count
    if sizes is None or not set(policy.lora_targets) <= sizes.linear.keys():
        return None
    adapted = policy.lora_targets or tuple(sizes.linear)
    ends = sum(sum(sizes.linear[name]) for name in adapted)
    return sizes.num_hidden_layers * policy.lora_rank * ends


def learner_memory(
    config: RunConfig,
    sizes: Architecture | None,
    count: int | None,
    learning: int | None,
    moment_bytes: int,
) -> Mapping[str, Bytes]:
    """Return the bytes of the learner's device, by purpose.

    All weights: 4 P, gradients 4 P, moments 8 P, the reference b P where there is one, and with
    bf16 2 P for the copies that products are computed with (one layer's, which is left out, with
    gradient checkpointing). An adapter: b P + 4 T, gradients 4 T, moments 8 T. Where references are
    imitated, there are moments twice.
    """
    policy, learner = config.policy, config.learner
    width = FP32 if policy.precision == "fp32" else BF16
    full = policy.train == "full"
    referred = learner.needs_reference
    copied = full and policy.precision == "bf16" and not policy.gradient_checkpointing
    base = 0 if full else _times(count, width)
    return {
        "weights": _sum(base, _times(learning, FP32)),
        "gradients": _times(learning, FP32),
        "optimizer": _times(learning, moment_bytes),
        "reference": _times(count, width) if full and referred else 0,
        "copies": _times(count, BF16) if copied else 0,
        "activations": activations(config, sizes),
        "logits": logits(config, sizes),
    }


def activations(config: RunConfig, sizes: Architecture | None) -> Bytes:
    """Return what a micro-batch keeps for the way back: b M L (6 H + 3 Q + 4 K + 4 F).

    Inputs and outputs of two norms and two sums, queries and keys before and after rotation,
    values, attention's answer, and the gate before and after its function, the other half and their
    product. Attention keeps no matrix of tokens by tokens. With gradient checkpointing one layer
    keeps that and each its input: b M (L H + 6 H + 3 Q + 4 K + 4 F).
    """
    if sizes is None:
        return None
    width = FP32 if config.policy.precision == "fp32" else BF16
    layer = 6 * sizes.hidden_size + 3 * sizes.query_size + 4 * sizes.key_size
    layer += 4 * sizes.feed_forward_size
    layers = sizes.num_hidden_layers
    if config.policy.gradient_checkpointing:
        return width * micro_batch(config) * (layers * sizes.hidden_size + layer)
    return width * micro_batch(config) * layers * layer


def logits(config: RunConfig, sizes: Architecture | None) -> Bytes:
    """Return 16 min(M V, 2^26): float32, with what the way back needs, a chunk at a time."""
    if sizes is None:
        return None
    entries = min(micro_batch(config) * sizes.vocab_size, LOGITS_AT_ONCE)
    return FP32 * LOGIT_COPIES * entries


def micro_batch(config: RunConfig) -> int:
    """Return M: the setting, or one whole conversation where that is longer."""
    return max(config.learner.micro_batch_tokens, config.rollout.max_tokens)


def cache_bytes_a_token(config: RunConfig, sizes: Architecture | None) -> Bytes:
    """Return the bytes of a token's keys and values in an engine: 2 L K b."""
    if sizes is None:
        return None
    return 2 * sizes.num_hidden_layers * sizes.key_size * _engine_width(config)


def engine_memory(config: RunConfig, count: int | None, cache: Bytes) -> Mapping[str, Bytes]:
    """Return the bytes of an engine's device, by purpose: weights b P, and the cache.

    The cache is as large as it is set; with transformers as large as all conversations at their
    longest. What a GPU's share leaves is not known here.
    """
    engine = config.rollout.engine
    if not isinstance(engine, VllmEngine):
        held: Bytes = _times(cache, config.rollout.concurrent * config.rollout.max_tokens)
    else:
        held = (engine.kv_cache_mb << 20) or None
    return {"weights": _times(count, _engine_width(config)), "keys and values": held}


def cached_tokens(config: RunConfig, cache: Bytes) -> int | None:
    """Return how many tokens fit into vLLM's cache; None where its size is not set."""
    engine = config.rollout.engine
    if cache is None or not isinstance(engine, VllmEngine) or not engine.kv_cache_mb:
        return None
    return (engine.kv_cache_mb << 20) // cache


def rollout_tokens(config: RunConfig) -> int:
    """Return groups a step times rollouts a group times tokens of the longest conversation."""
    groups = config.learner.groups_per_step * config.rollout.group_size
    return groups * config.rollout.max_tokens


def trained_tokens(config: RunConfig) -> int:
    """Return the tokens of a step's rollouts and replayed references, in every epoch."""
    replayed = config.learner.imitation.replay_per_step * config.rollout.max_tokens
    return config.learner.ppo_epochs * (rollout_tokens(config) + replayed)


def moments(config: RunConfig, imitates_others: bool) -> int:
    """Return the bytes of the optimizers' moments for each trained weight."""
    learner = config.learner
    imitates = learner.imitation.weight > 0 or (
        imitates_others and not isinstance(learner.objective, Sft | Dpo)
    )
    return MOMENTS * (imitates + (not isinstance(learner.objective, NoObjective)))


def disk(config: RunConfig, learning: int | None, moment_bytes: int) -> Disk:
    """Return what the run's folder grows by.

    A version is 4 T, a checkpoint 12 T, or 20 T where references are imitated. At the end of a run
    of N steps there are the scored versions (every E, the first and the last), the recent ones,
    N / C checkpoints, and the journal, which keeps no more rollouts than its limit; in a day the
    same of 1,440 steps, without recent versions, which go as others come.
    """
    version, checkpoint = _times(learning, FP32), _times(learning, FP32 + moment_bytes)
    journal = TOKEN_COLUMNS * rollout_tokens(config)
    steps = config.learner.steps
    scored = len({*range(0, steps + 1, config.evaluator.every), steps})
    recent = config.learner.max_staleness + RECENT_VERSIONS
    return Disk(
        version=version,
        checkpoint=checkpoint,
        journal_a_step=journal,
        whole_run=_sum(
            _times(version, min(steps + 1, scored + recent)),
            _times(checkpoint, steps // config.learner.checkpoint_every),
            _retained(config, journal * steps),
        ),
        a_day=_sum(
            _times(version, STEPS_A_DAY // config.evaluator.every),
            _times(checkpoint, STEPS_A_DAY // config.learner.checkpoint_every),
            _retained(config, journal * STEPS_A_DAY),
        ),
    )


def _retained(config: RunConfig, size: int) -> int:
    return min(size, int(config.store.retain_gb * 2**30))


def _engine_width(config: RunConfig) -> int:
    engine = config.rollout.engine
    return BF16 if isinstance(engine, VllmEngine) and engine.dtype != "float32" else FP32


def _times(count: int | None, width: int) -> Bytes:
    return None if count is None else count * width


def _sum(*parts: Bytes) -> Bytes:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _numbers(path: Path) -> int:
    """Return how many numbers a safetensors file holds, by its header."""
    with path.open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
    tensors = (tensor for name, tensor in header.items() if name != "__metadata__")
    return sum(math.prod(tensor["shape"]) for tensor in tensors)
