"""Facts about the adapters of PEFT."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from peft.utils.transformers_weight_conversion import convert_peft_config_for_transformers
from transformers import AutoConfig, AutoModelForCausalLM

SIZES = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "max_position_embeddings": 64,
}
IDS = torch.tensor([[1, 2, 3, 4]])
LAYER = "model.layers.0.self_attn.q_proj"


def model(kind: str = "qwen3", **settings: object) -> Any:
    torch.manual_seed(0)
    config = cast("Any", AutoConfig).for_model(kind, **SIZES, **settings)
    return cast("Any", AutoModelForCausalLM).from_config(config).eval()


def adapted(base: Any, targets: tuple[str, ...] = ("q_proj",), **settings: Any) -> PeftModel:
    lora = LoraConfig(
        r=2, lora_alpha=6, target_modules=[*targets], task_type="CAUSAL_LM", **settings
    )
    return cast("PeftModel", get_peft_model(base, lora))


def trained(policy: PeftModel) -> dict[str, torch.Tensor]:
    """Give an adapter other weights than its first ones; return its tensors."""
    tensors = get_peft_model_state_dict(policy)
    for name, tensor in tensors.items():
        tensor.copy_(torch.rand(tensor.shape) - 0.5 * ("lora_A" in name))
    return tensors


def logits(of: Any) -> torch.Tensor:
    with torch.no_grad():
        return of(input_ids=IDS).logits


def test_a_new_adapter_changes_nothing():
    """The model with a new adapter has the logits of its base, to the last bit.

    Needed by: coevolve/learning/policy.py
    """
    base = model()
    before = logits(base)
    assert torch.equal(logits(adapted(base)), before)


def test_an_adapter_that_is_off_leaves_the_base():
    """Within `disable_adapter` a trained adapter has the logits of its base, and outside others.

    Needed by: coevolve/learning/policy.py
    """
    base = model()
    before = logits(base)
    policy = adapted(base)
    trained(policy)
    assert not torch.equal(logits(policy), before)
    with policy.disable_adapter():
        assert torch.equal(logits(policy), before)


def test_tensors_have_the_names_of_the_file():
    """`get_peft_model_state_dict` gives names like `base_model.model.LAYER.lora_A.weight`.

    Needed by: coevolve/weights/published.py, coevolve/learning/policy.py
    """
    names = {f"base_model.model.{LAYER}.lora_{matrix}.weight" for matrix in "AB"}
    assert get_peft_model_state_dict(adapted(model())).keys() == names


def test_the_tensors_are_the_ones_in_training():
    """A change of a tensor of `get_peft_model_state_dict` changes the model.

    Needed by: coevolve/learning/policy.py
    """
    policy = adapted(model())
    before = logits(policy)
    trained(policy)
    assert not torch.equal(logits(policy), before)


@pytest.mark.parametrize(("use_rslora", "scale"), [(False, 6 / 2), (True, 6 / 2**0.5)])
def test_an_adapter_adds_a_scaled_product(use_rslora: bool, scale: float):
    """An adapter changes a weight W to W + B A * alpha / r, or by the root of r with `use_rslora`.

    Needed by: coevolve/weights/published.py
    """
    base = model()
    policy = adapted(base, use_rslora=use_rslora)
    tensors = trained(policy)
    found = logits(policy)
    plain = model()
    down, up = (tensors[f"base_model.model.{LAYER}.lora_{each}.weight"] for each in "AB")
    with torch.no_grad():
        plain.get_parameter(f"{LAYER}.weight").add_(scale * (up @ down))
    assert torch.allclose(logits(plain), found, atol=1e-5)


def test_the_settings_file_names_what_we_read(tmp_path: Path):
    """`adapter_config.json` has these settings with these values if none of them is chosen.

    Needed by: coevolve/weights/published.py, coevolve/models/weight_files.py
    """
    settings = adapted(model()).peft_config["default"]
    settings.save_pretrained(str(tmp_path))
    found = json.loads((tmp_path / "adapter_config.json").read_bytes())
    expected = {
        "peft_type": "LORA",
        "r": 2,
        "lora_alpha": 6,
        "target_modules": ["q_proj"],
        "use_rslora": False,
        "use_dora": False,
        "bias": "none",
        "modules_to_save": None,
        "rank_pattern": {},
        "alpha_pattern": {},
        "fan_in_fan_out": False,
        "base_model_name_or_path": None,
    }
    assert {name: found[name] for name in expected} == expected
    assert "peft_version" in found


def test_names_of_modules_are_a_set():
    """An adapter's `target_modules` are a set, so the order in its file differs between processes.

    Needed by: coevolve/models/weight_files.py
    """
    targets = adapted(model(), ("q_proj", "v_proj")).peft_config["default"]
    assert cast("Any", targets).target_modules == {"q_proj", "v_proj"}
    assert isinstance(cast("Any", targets).target_modules, set)


def test_experts_are_no_targets_of_plain_adapters():
    """`convert_peft_config_for_transformers` takes the experts' names from the target modules.

    Needed by: coevolve/learning/policy.py
    """
    experts = model("qwen3_moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8)
    settings = LoraConfig(target_modules=["q_proj", "gate_proj", "up_proj", "down_proj"])
    convert_peft_config_for_transformers(settings, experts, None)
    assert settings.target_modules == {"q_proj"}


def test_a_seed_gives_the_same_adapter():
    """The first weights of an adapter depend on `torch.manual_seed` alone.

    Needed by: coevolve/learning/policy.py
    """
    made: list[dict[str, torch.Tensor]] = []
    for _ in range(2):
        base = model()
        torch.manual_seed(7)
        made.append(get_peft_model_state_dict(adapted(base)))
    for name, tensor in made[0].items():
        assert torch.equal(tensor, made[1][name])


def test_only_the_adapter_is_trained():
    """An adapter freezes all weights of its base.

    Needed by: coevolve/learning/policy.py
    """
    policy = adapted(model())
    names = [name for name, each in policy.named_parameters() if each.requires_grad]
    assert len(names) == 2
    assert all(".lora_" in name for name in names)
