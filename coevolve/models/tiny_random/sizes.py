"""The sizes of a tiny random model, computed without torch.

A CPU serves these sizes in milliseconds. Heads have 32 entries, the minimum for vLLM on a CPU.
"""

from coevolve.models.architecture import ModelConfig

SIZES: ModelConfig = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
}
"""Sizes that replace those in the model's own config."""

DROPPED = frozenset(
    {
        "auto_map",
        "bos_token_id",
        "dtype",
        "layer_types",
        "max_window_layers",
        "quantization_config",
        "sliding_window",
        "torch_dtype",
        "transformers_version",
        "use_sliding_window",
    }
)
"""Config fields about the model's own sizes, precision or code, which are dropped."""

SPREAD = 0.05
"""Standard deviation of the weights: answers vary, and none is certain."""

VOCABULARY = 2048
"""Maximum entries of the tokenizer, without those of its chat format."""


def tiny_config(
    own: ModelConfig, *, vocabulary: int, length: int, end: int, pad: int
) -> ModelConfig:
    """Return ``own`` with small sizes, ``vocabulary`` tokens, and ``length`` positions."""
    kept = {name: value for name, value in own.items() if name not in DROPPED}
    sizes = {name: size for name, size in SIZES.items() if name in own}
    special = {"eos_token_id": end, "pad_token_id": pad, "bos_token_id": None}
    return {
        **kept,
        **sizes,
        **special,
        "vocab_size": vocabulary,
        "max_position_embeddings": length,
        "initializer_range": SPREAD,
    }
