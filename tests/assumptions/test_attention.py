"""Facts about transformers' attention."""

from pathlib import Path
from typing import Any, cast

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from tests.serving import SHAPE

IDS = torch.arange(1, 41)[None]
Auto = cast("Any", AutoModelForCausalLM)


def new(kind: str, attention: str, **settings: object) -> Any:
    torch.manual_seed(0)
    config = cast("Any", AutoConfig).for_model(kind, **(SHAPE | settings))
    return Auto.from_config(config, attn_implementation=attention).eval()


def logits(folder: Path, attention: str) -> torch.Tensor:
    with torch.no_grad():
        return Auto.from_pretrained(folder, attn_implementation=attention).eval()(IDS).logits


def test_only_eager_attention_caps_its_logits(tmp_path: Path):
    """The attention `sdpa` refuses, or ignores in silence, a model's `attn_logit_softcapping`.

    Needed by: coevolve/models/load.py
    """
    new("gemma2", "eager", attn_logit_softcapping=2.0).save_pretrained(tmp_path)
    capped = logits(tmp_path, "eager")
    try:
        ignored = logits(tmp_path, "sdpa")
    except ValueError:
        return
    config = tmp_path / "config.json"
    config.write_text(
        config.read_text().replace(
            '"attn_logit_softcapping": 2.0', '"attn_logit_softcapping": null'
        )
    )
    assert torch.allclose(ignored, logits(tmp_path, "eager"), atol=1e-4)
    assert not torch.allclose(ignored, capped, atol=1e-2)


def test_a_model_with_two_kinds_of_layers_takes_a_mask_for_each():
    """A model with full and sliding layers takes a dict of masks by kind of layer.

    Needed by: coevolve/engine/masks.py
    """
    kinds = ["sliding_attention", "full_attention"]
    model = new("qwen3", "sdpa", layer_types=kinds, sliding_window=8, use_sliding_window=True)
    after = torch.arange(IDS.shape[1])
    hidden = after[None] > after[:, None]
    masks = {
        "full_attention": hidden,
        "sliding_attention": hidden | (after[None] <= after[:, None] - 8),
    }
    bias = {
        kind: torch.zeros(1, 1, *mask.shape).masked_fill(mask, float("-inf"))
        for kind, mask in masks.items()
    }
    with torch.no_grad():
        given = model(IDS, attention_mask=bias).logits
        made = model(IDS).logits
        full = model(IDS, attention_mask=bias["full_attention"]).logits
    assert torch.allclose(given, made, atol=1e-4)
    assert not torch.allclose(full, made, atol=1e-2)
