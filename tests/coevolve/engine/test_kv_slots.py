from typing import Any

import pytest
import torch
from transformers import Qwen3Config

from coevolve.engine.kv_slots import SlotCache


@pytest.mark.parametrize("further", [{}, {"kwargs": {"use_cache": True}}], ids=["5.19", "5.24"])
def test_the_cache_takes_the_arguments_of_every_supported_transformers(further: dict[str, Any]):
    config = Qwen3Config(
        num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, head_dim=4
    )
    cache = SlotCache(config, slots=1, positions=2, dtype=torch.float32)
    cache.aim(slice(1), torch.tensor([[0]]), torch.tensor([[0, 1]]), longest=2)
    keys, values = torch.randn(2, 1, 2, 2, 4)
    stored_keys, stored_values = cache.update(keys, values, 0, **further)
    assert torch.equal(stored_keys, keys)
    assert torch.equal(stored_values, values)
