from pathlib import Path

import pytest

from coevolve.models.architecture import KNOWN, architecture, read_config
from protocols.errors import ConfigError


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("Qwen/Qwen3-4B-Instruct-2507", 4_022_468_096),
        ("Qwen/Qwen2.5-7B-Instruct", 7_615_616_512),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", 30_532_122_624),
        ("Qwen/Qwen3-0.6B", 596_049_920),
        ("Qwen/Qwen3-1.7B-Base", 1_720_574_976),
        ("Qwen/Qwen3-8B", 8_190_735_360),
        ("Qwen/Qwen3-14B", 14_768_307_200),
        ("Qwen/Qwen3-32B", 32_762_123_264),
        ("Qwen/Qwen3-235B-A22B-Thinking-2507", 235_093_634_560),
    ],
)
def test_the_models_that_are_known_have_as_many_parameters_as_their_cards_say(
    model: str, parameters: int
):
    found = architecture(KNOWN[model])
    assert found is not None
    assert found.parameters == parameters


def test_sizes_of_heads_and_experts():
    dense, experts = (
        architecture(KNOWN[f"Qwen/{name}"])
        for name in ("Qwen2.5-7B-Instruct", "Qwen3-30B-A3B-Instruct-2507")
    )
    assert dense is not None
    assert experts is not None
    assert (dense.head_size, dense.query_size, dense.key_size) == (128, 3584, 512)
    assert dense.feed_forward_size == 18_944
    assert (experts.head_size, experts.query_size, experts.key_size) == (128, 4096, 512)
    assert experts.feed_forward_size == 8 * 768
    assert "gate_proj" not in experts.linear


def test_experts_are_counted_under_both_of_their_names():
    published = KNOWN["Qwen/Qwen3-30B-A3B-Instruct-2507"]
    saved = dict(published)
    saved["num_local_experts"] = saved.pop("num_experts")
    assert architecture(saved) == architecture(published)


def test_nothing_is_claimed_of_other_architectures():
    assert architecture({"model_type": "mamba", "hidden_size": 8}) is None
    assert architecture({"model_type": "qwen3"}) is None


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_broken_config_is_refused(tmp_path: Path, text: str):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ConfigError, match=r"policy.model: .*config.json"):
        read_config(tmp_path)
