"""Formulas for the memory of one of the learner's devices.

The formulas for activations count what PyTorch keeps for the backward pass. They were compared with
measured allocations of the real policy (`tests/coevolve/estimate/test_learner_memory.py`).
They hold for attention without a matrix of tokens by tokens.

Letters: P parameters, T trained parameters, D the learner's devices, L layers, H hidden size; Q, K
and F entries of a token's queries, keys and feed-forward network in one layer; V vocabulary, M
tokens of a micro-batch, b bytes of a number.
"""

from collections.abc import Mapping

from coevolve.estimate.sizes import BF16, FP32, Bytes, divided, summed, times
from coevolve.learning.objective import needs_initial_model
from coevolve.learning.objective_registry import objective_of
from coevolve.models.architecture import NORMED_HEADS, Architecture
from protocols.config import PolicyConfig, RunConfig

LOGITS_AT_ONCE = 2**26
"""The value of `coevolve.learning.scoring`, which is not imported because it loads torch."""

LOGIT_COPIES = 4
"""The logits, and about three times as much for the backward pass."""


def learner_memory(
    config: RunConfig,
    sizes: Architecture | None,
    count: int | None,
    learning: int | None,
    moment_bytes: int,
) -> Mapping[str, Bytes]:
    """Return the bytes of each of the learner's devices, by purpose.

    Training all weights: weights 4 P, gradients 4 P, moments 8 P, and b P for a reference model.
    Training an adapter: weights b P + 4 T, gradients 4 T, moments 8 T. If references are imitated,
    there are two sets of moments. All of these are divided by D. With bf16, one device keeps copies
    for matrix products, 2 P; with gradient checkpointing, only those of the layer in work, which
    are left out, as are the layers that several devices gather.
    """
    policy, learner = config.policy, config.learner
    width = FP32 if policy.precision == "fp32" else BF16
    full = policy.train == "full"
    referred = needs_initial_model(objective_of(learner), learner)
    copied = full and policy.precision == "bf16" and not policy.gradient_checkpointing
    base = 0 if full else times(count, width)
    split = learner.devices
    return {
        "weights": divided(summed(base, times(learning, FP32)), split),
        "gradients": divided(times(learning, FP32), split),
        "optimizer": divided(times(learning, moment_bytes), split),
        "reference": divided(times(count, width), split) if full and referred else 0,
        "copies": times(count, BF16) if copied else 0,
        "activations": activations(config, sizes),
        "logits": logits(config, sizes),
    }


def activations(config: RunConfig, sizes: Architecture | None) -> Bytes:
    """Return the bytes of a micro-batch's forward and backward pass.

    Without gradient checkpointing every layer keeps its numbers (`layer_bytes`); with it, one layer
    does, and every layer keeps its input, 4 H bytes, or 2 H if the weights are in bfloat16. The
    backward pass adds the gradients in work, max(8 F, 12 H, 9 Q), and the last norm 8 H.
    """
    if sizes is None:
        return None
    layers, layer = sizes.num_hidden_layers, layer_bytes(config.policy, sizes)
    if config.policy.gradient_checkpointing:
        kept = layers * input_width(config) * sizes.hidden_size + layer
    else:
        kept = layers * layer
    working = max(8 * sizes.feed_forward_size, 12 * sizes.hidden_size, 9 * sizes.query_size)
    return micro_batch(config) * (kept + working + 8 * sizes.hidden_size)


def layer_bytes(policy: PolicyConfig, sizes: Architecture) -> int:
    """Return the bytes that one layer keeps for the backward pass, for each token.

    In float32: 4 (6 H + 2 Q + 2 K + 4 F), the inputs and results of two norms and the inputs of the
    products after them; rotated queries and keys, values, and attention's result; the gate before
    and after its function, the other half, and their product. An adapter needs no inputs for its
    frozen norms, 4 H in place of 6 H.

    In bf16: 26 H + 4 Q + 4 K + 8 F. The stream between layers stays in float32 (16 H), and each of
    five products keeps a bfloat16 copy of its input (10 H). With an adapter the norms keep 8 H in
    place of 16 H, and the output product keeps its input twice (2 Q more).

    Norms of heads add their input and result: for all weights 8 (Q + K) in float32 and 6 (Q + K) in
    bf16, for an adapter 4 (Q + K).
    """
    hidden, query, key = sizes.hidden_size, sizes.query_size, sizes.key_size
    full = policy.train == "full"
    if policy.precision == "fp32":
        kept = 4 * ((6 if full else 4) * hidden + 2 * query + 2 * key)
        kept += 16 * sizes.feed_forward_size
        normed = 8 if full else 4
    else:
        kept = (26 if full else 18) * hidden + (4 if full else 6) * query + 4 * key
        kept += 8 * sizes.feed_forward_size
        normed = 6 if full else 4
    return kept + normed * (query + key) * (sizes.model_type in NORMED_HEADS)


def input_width(config: RunConfig) -> int:
    """Return the bytes of a number between layers.

    Autocast leaves it in float32 beside float32 weights. The weights in use are in bfloat16 beside
    an adapter, and on several GPUs.
    """
    policy = config.policy
    sharded = config.learner.devices > 1 and policy.device == "cuda"
    return BF16 if policy.precision == "bf16" and (policy.train == "lora" or sharded) else FP32


def logits(config: RunConfig, sizes: Architecture | None) -> Bytes:
    """Return 16 min(M V, 2^26): float32 logits and their backward pass, one chunk at a time."""
    if sizes is None:
        return None
    entries = min(micro_batch(config) * sizes.vocab_size, LOGITS_AT_ONCE)
    return FP32 * LOGIT_COPIES * entries


def micro_batch(config: RunConfig) -> int:
    """Return M: the setting, or the longest conversation if that is longer."""
    return max(config.learner.micro_batch_tokens, config.rollout.max_tokens)
