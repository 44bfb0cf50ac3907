"""Estimates how long a step takes, and which part waits for which.

A dry run knows neither the machine nor the lengths of conversations, so the numbers follow from
`Throughput`, whose fields are assumptions unless they were measured. `python -m tests.bench gpu`
measures some of them and prints them, and `coevolve launch FILE --dry-run --measured FILE` reads
them from its output.

Letters: N active parameters, s sampled tokens of a conversation, t all its tokens.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from coevolve.base.foreign import boundary, bytes_of
from coevolve.learning.objective_registry import objective_of
from coevolve.models.architecture import Architecture
from protocols.config import RunConfig, VllmEngine
from protocols.errors import ConfigError

Share = Annotated[float, msgspec.Meta(gt=0.0, le=1.0)]
Positive = Annotated[float, msgspec.Meta(gt=0.0)]

PREFIX = "throughput"
"""Key of a `Throughput` in a line of JSON."""


class Throughput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one GPU does, and how long conversations are. The defaults are assumptions."""

    gpu_gb: Positive = 80.0
    """Memory of a GPU, in 10^9 bytes. Assumes an H100 or A100 of 80 GB."""

    tflops: Positive = 989.0
    """Peak of products in bfloat16, in 10^12 operations per second: the data sheet of an H100 SXM,
    without sparsity."""

    flops_share: Share = 0.4
    """Share of the peak that the learner reaches, recomputation included. Assumes what frameworks
    report for dense models of these sizes; ours was not measured."""

    bandwidth_tb_s: Positive = 3.35
    """Peak of reading a GPU's memory, in 10^12 bytes per second: the data sheet of an H100 SXM."""

    bandwidth_share: Share = 0.5
    """Share of that peak at which an engine reads weights, keys and values. An assumption."""

    filled: Share = 0.33
    """Mean length of a conversation, as a share of ``rollout.max_tokens``. An assumption."""

    sampled: Share = 0.17
    """Share of a conversation's tokens that the policy writes. Assumes AgentEvolver's
    default lengths of prompts and answers: 20,480 and 4,096."""


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """Seconds of one step."""

    learner_s: float
    sampling_s: float
    step_s: float
    """The longer one, or the sum if they share a GPU or ``learner.max_staleness`` is 0."""

    room: float
    """Conversations of full length whose keys and values fit into an engine's cache."""

    at_once: int
    """Conversations that an engine samples at once."""


MOST_BYTES = 1 << 20
"""Maximum bytes of a file of measurements."""


def read_throughput(path: Path) -> Throughput:
    """Return what the JSON lines of ``path`` measured; later lines win. Raises ConfigError."""
    found: dict[str, Any] = {}
    what = (
        f"{path}: needs lines of JSON from `python -m tests.bench gpu`, such as "
        f'{{"{PREFIX}": {{"flops_share": 0.4}}}}'
    )
    with boundary(ConfigError, what):
        for line in bytes_of(path, MOST_BYTES).decode().splitlines():
            if line.startswith("{"):
                found |= json.loads(line).get(PREFIX, {})
        return msgspec.convert(found, Throughput)


def step_time(
    config: RunConfig,
    sizes: Architecture | None,
    count: int | None,
    engine: Mapping[str, int | None],
    cache: int | None,
    speed: Throughput,
) -> StepTime | None:
    """Return the seconds of a step on GPUs; None if learner or engine have none, or sizes unknown.

    ``engine`` is an engine's memory by purpose, ``cache`` the bytes of a token's keys and values.
    """
    settings, weights = config.rollout.engine, engine["weights"]
    if not isinstance(settings, VllmEngine) or not settings.gpus or config.policy.device == "cpu":
        return None
    if sizes is None or count is None or cache is None or weights is None:
        return None
    used = active(sizes, count)
    length = config.rollout.max_tokens
    held = engine["keys and values"]
    if held is None:
        held = _left(settings, weights, speed)
    room = held / (cache * length)
    learner_s = learner_flops(config, sizes, used, speed) / (
        config.learner.devices * speed.tflops * 1e12 * speed.flops_share
    )
    at_once = _at_once(config, held / (cache * length * speed.filled))
    sampling_s = _sampling_s(config, used, weights, cache, at_once, speed)
    shared = settings.gpus < 1 or not config.learner.max_staleness
    return StepTime(
        learner_s=learner_s,
        sampling_s=sampling_s,
        step_s=learner_s + sampling_s if shared else max(learner_s, sampling_s),
        room=room,
        at_once=at_once,
    )


def active(sizes: Architecture, count: int) -> int:
    """Return N: all parameters but those of experts that a token does not use."""
    idle = sizes.num_experts - sizes.num_experts_per_tok
    if not sizes.num_experts:
        return count
    expert = 3 * sizes.moe_intermediate_size * sizes.hidden_size
    return count - sizes.num_hidden_layers * idle * expert


def learner_flops(config: RunConfig, sizes: Architecture, used: int, speed: Throughput) -> float:
    """Return the operations of one step of the learner.

    A token takes 2 N forward and 4 N backward, 2 N backward with an adapter; gradient checkpointing
    adds a forward pass, as do a reference model and, with several updates, the logprobs before
    them. Attention adds 2 L Q t to each 2 N, for a causal mask.
    """
    policy, learner = config.policy, config.learner
    passes = 2.0 if policy.train == "lora" else 3.0
    passes += policy.gradient_checkpointing
    passes *= learner.ppo_epochs
    objective = objective_of(learner)
    compares = objective.is_on_policy and learner.kl_coefficient > 0
    passes += objective.needs_initial_model or compares
    passes += learner.ppo_epochs * learner.mini_batches > 1
    length = speed.filled * config.rollout.max_tokens
    attention = 2 * sizes.num_hidden_layers * sizes.query_size * length
    return conversations(config) * length * passes * (2 * used + attention)


def conversations(config: RunConfig) -> int:
    return config.learner.groups_per_step * config.rollout.group_size


def _left(settings: VllmEngine, weights: int, speed: Throughput) -> float:
    """Return the bytes that an engine's share of its GPU leaves for keys and values."""
    share = settings.gpu_memory_utilization * speed.gpu_gb * 1e9
    return max(0.0, share - weights)


def _at_once(config: RunConfig, room: float) -> int:
    """Return how many conversations of mean length an engine samples at once, at least 1."""
    each = -(-conversations(config) // config.rollout.actors)
    return max(1, min(each, config.rollout.concurrent, int(room)))


def _sampling_s(
    config: RunConfig, used: int, weights: int, cache: int, at_once: int, speed: Throughput
) -> float:
    """Return the seconds in which the engines sample a step's conversations.

    A step of an engine samples a token for each conversation and reads the weights once, and the
    keys and values of all these conversations, which are half as long on average. Prompts are
    computed as in the learner, once.
    """
    length = speed.filled * config.rollout.max_tokens
    each = conversations(config) / config.rollout.actors
    read = weights + at_once * cache * length / 2
    decoding_s = read / (speed.bandwidth_tb_s * 1e12 * speed.bandwidth_share)
    sampled = each * speed.sampled * length
    prompts_s = each * length * 2 * used / (speed.tflops * 1e12 * speed.flops_share)
    return sampled / at_once * decoding_s + prompts_s
