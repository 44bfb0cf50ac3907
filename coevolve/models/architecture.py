"""Computes a model's sizes from its `config.json`, without its weights.

If the model is on disk, its own `config.json` is used. For the models of `configs/` and all sizes
of Qwen3, this module stores the part that determines architecture and sizes, so that a run file can
be checked and estimated before any download.

The module supports decoders with grouped-query attention and a gated feed-forward network, either
dense or with a mixture of experts in every layer (Qwen2, Qwen3, Qwen3-MoE, Llama). It returns no
sizes for other architectures.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from coevolve.models.model_files import read_settings

Size = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Optional = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]

ModelConfig = Mapping[str, Any]
"""A `config.json` of transformers."""

BIASED = ("qwen2",)
"""Architectures whose queries, keys and values have biases."""

NORMED_HEADS = ("qwen3", "qwen3_moe")
"""Architectures that normalise every head's queries and keys."""

COVERED = (*BIASED, *NORMED_HEADS, "llama")

_QWEN3: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151_936,
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
"""Settings shared by all dense sizes of Qwen3."""

_EXPERTS: dict[str, Any] = _QWEN3 | {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "num_key_value_heads": 4,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
"""Settings shared by all mixtures of experts of Qwen3."""

_SIZE_FIELDS = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
)
_TIED = {"tie_word_embeddings": True}

_QWEN3_SIZES: Mapping[str, dict[str, Any]] = {
    name: base | dict(zip(_SIZE_FIELDS, sizes, strict=True)) | others
    for name, base, sizes, others in (
        ("0.6B", _QWEN3, (1024, 3072, 28, 16), _TIED),
        ("1.7B", _QWEN3, (2048, 6144, 28, 16), _TIED),
        ("4B", _QWEN3, (2560, 9728, 36, 32), _TIED),
        ("8B", _QWEN3, (4096, 12_288, 36, 32), {}),
        ("14B", _QWEN3, (5120, 17_408, 40, 40), {}),
        ("32B", _QWEN3, (5120, 25_600, 64, 64), {}),
        ("30B-A3B", _EXPERTS, (2048, 6144, 48, 32), {"moe_intermediate_size": 768}),
        ("235B-A22B", _EXPERTS, (4096, 12_288, 94, 64), {"moe_intermediate_size": 1536}),
    )
}

_FIRST = {"max_position_embeddings": 40_960, "rope_theta": 1_000_000}
_BASE = {"max_position_embeddings": 32_768, "rope_theta": 1_000_000}
_2507 = {"max_position_embeddings": 262_144, "rope_theta": 5_000_000}
_2507_30B = _2507 | {"rope_theta": 10_000_000}

_QWEN3_VARIANTS: Mapping[str, tuple[str, dict[str, Any]]] = {
    **{size: (size, _FIRST) for size in _QWEN3_SIZES},
    **{f"{size}-Base": (size, _BASE) for size in _QWEN3_SIZES if size not in ("32B", "235B-A22B")},
    **{
        f"{size}-{kind}-2507": (size, _2507_30B if size == "30B-A3B" else _2507)
        for size in ("4B", "30B-A3B", "235B-A22B")
        for kind in ("Instruct", "Thinking")
    },
}
"""Suffix of the name after ``Qwen/Qwen3-`` -> (size, settings of its positions)."""

_QWEN2_5_7B: ModelConfig = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18_944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152_064,
    "max_position_embeddings": 32_768,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1_000_000,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
_SMOLLM2_135M: ModelConfig = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49_152,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 100_000,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
}
KNOWN: Mapping[str, ModelConfig] = {
    "HuggingFaceTB/SmolLM2-135M-Instruct": _SMOLLM2_135M,
    "Qwen/Qwen2.5-7B-Instruct": _QWEN2_5_7B,
    **{
        f"Qwen/Qwen3-{variant}": _QWEN3_SIZES[size] | positions
        for variant, (size, positions) in _QWEN3_VARIANTS.items()
    },
}
"""Name on Hugging Face -> stored part of the `config.json`."""


class Architecture(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of a decoder, by their names in `config.json`."""

    model_type: str
    hidden_size: Size
    intermediate_size: Size
    num_hidden_layers: Size
    num_attention_heads: Size
    vocab_size: Size
    num_key_value_heads: Size | None = None
    head_dim: Size | None = None
    tie_word_embeddings: bool = False
    num_experts: Optional = 0
    num_experts_per_tok: Optional = 0
    moe_intermediate_size: Optional = 0

    @property
    def head_size(self) -> int:
        """Entries of one head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def query_size(self) -> int:
        """Entries of one token's queries, in one layer."""
        return self.num_attention_heads * self.head_size

    @property
    def key_size(self) -> int:
        """Entries of one token's keys, in one layer; its values have as many."""
        return (self.num_key_value_heads or self.num_attention_heads) * self.head_size

    @property
    def feed_forward_size(self) -> int:
        """Entries of one token's gate in one layer, summed over the experts that process it."""
        if self.num_experts:
            return self.num_experts_per_tok * self.moe_intermediate_size
        return self.intermediate_size

    @property
    def linear(self) -> Mapping[str, tuple[int, int]]:
        """(outputs, inputs) of the linear layers of one layer, without the experts', by name."""
        hidden = self.hidden_size
        attention = {
            "q_proj": (self.query_size, hidden),
            "k_proj": (self.key_size, hidden),
            "v_proj": (self.key_size, hidden),
            "o_proj": (hidden, self.query_size),
        }
        if self.num_experts:
            return attention
        return attention | {
            "gate_proj": (self.intermediate_size, hidden),
            "up_proj": (self.intermediate_size, hidden),
            "down_proj": (hidden, self.intermediate_size),
        }

    @property
    def parameters(self) -> int:
        """Number of parameters; a tied output head counts once.

        The embedding has V H, an untied head another V H, and the last norm H. Each layer has its
        linear layers and two norms, 2 H. Biases add Q + 2 K, and normalised heads 2 D. Experts add
        3 E I H, and their router E H.
        """
        layer = sum(rows * columns for rows, columns in self.linear.values())
        layer += 2 * self.hidden_size
        if self.model_type in BIASED:
            layer += self.query_size + 2 * self.key_size
        if self.model_type in NORMED_HEADS:
            layer += 2 * self.head_size
        layer += self.num_experts * self.hidden_size * (1 + 3 * self.moe_intermediate_size)
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tie_word_embeddings else 2)
        return embeddings + self.hidden_size + self.num_hidden_layers * layer


def word_config(
    words: int, ends: int | list[int], *, hidden: int, layers: int, positions: int
) -> ModelConfig:
    """Return a small Qwen3 with a token for each of ``words`` words; token 0 is the padding.

    A message ends with a token of ``ends``. A conversation has at most ``positions`` tokens.
    """
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": words,
        "hidden_size": hidden,
        "intermediate_size": 3 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": positions,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0,
        "attention_bias": False,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "initializer_range": 0.05,
        "pad_token_id": 0,
        "bos_token_id": None,
        "eos_token_id": ends,
    }


def architecture(config: ModelConfig) -> Architecture | None:
    """Return the sizes in ``config``; None for an unsupported architecture."""
    if config.get("model_type") not in COVERED:
        return None
    # Transformers 5 renames the field with the number of experts.
    experts = config.get("num_local_experts", 0)
    try:
        return msgspec.convert({"num_experts": experts, **config}, Architecture)
    except msgspec.ValidationError:
        return None


def read_config(folder: Path) -> ModelConfig:
    """Return the `config.json` of a model folder. Raises ConfigError if it is invalid."""
    return read_settings(folder / "config.json")
