"""Small random models of the families that people train, with the settings of each architecture."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from tests.serving import SHAPE

WINDOW = 24
"""Tokens that a sliding layer sees; conversations of the suite are longer."""

_SLIDING = {"sliding_window": WINDOW}
_GEMMA = _SLIDING | {"query_pre_attn_scalar": 32}
_BOTH = {"layer_types": ["sliding_attention", "full_attention"]}
_PADDED = {"pad_token_id": 0}
_EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 48}

DENSE: Mapping[str, dict[str, Any]] = {
    "qwen2": {"tie_word_embeddings": True},
    "qwen3": {"tie_word_embeddings": True},
    "llama": {},
    "mistral": _SLIDING,
    "gemma": {},
    "gemma2": _GEMMA | _BOTH | {"attn_logit_softcapping": 2.0},
    "gemma3_text": _GEMMA | _BOTH,
    "smollm3": _PADDED | {"no_rope_layers": [1, 0]},
    "phi3": _PADDED | {"original_max_position_embeddings": 256},
    "olmo3": _SLIDING | _BOTH,
    "granite": {"attention_multiplier": 0.2, "embedding_multiplier": 2.0, "logits_scaling": 2.0},
    "cohere": {},
    "cohere2": _SLIDING | _BOTH,
    "glm4": _PADDED,
    "nemotron": {},
    "exaone4": _SLIDING | _BOTH,
    "ernie4_5": {},
    "seed_oss": {},
}
"""Family, as transformers names it -> its settings beside those of `tests.serving.SHAPE`."""

EXPERTS: Mapping[str, dict[str, Any]] = {
    "qwen3_moe": _EXPERTS | {"num_experts": 4, "decoder_sparse_step": 1, "mlp_only_layers": [0]},
    "glm4_moe": _EXPERTS | _PADDED | {"n_routed_experts": 4, "n_shared_experts": 1},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
    "gpt_oss": _SLIDING | _BOTH | {"num_local_experts": 4, "num_experts_per_tok": 2},
}
"""Families with experts; the first two have a dense layer beside them."""

FAMILIES = DENSE | EXPERTS


def write_family(family: str, folder: Path) -> PreTrainedModel:
    """Write a random model of the family into ``folder``, and return it."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **(SHAPE | FAMILIES[family]))
    model = cast("Any", AutoModelForCausalLM).from_config(config, dtype=torch.float32).eval()
    model.save_pretrained(folder)
    return model
