import json
from pathlib import Path

import msgspec
import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from coevolve.learning.losses.imitation import imitated
from coevolve.learning.policy import Policy, padded
from coevolve.learning.rows import Conversation, Row
from coevolve.models.load import read_model
from protocols.config import PolicyConfig
from protocols.errors import LearnerError
from tests.learning import small_model

ROWS: list[Row] = [
    imitated(Conversation(token_ids=list(range(3, 3 + n)), mask=[0, *[1] * (n - 1)]))
    for n in (5, 8)
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("model"))


def logprobs(policy: Policy) -> torch.Tensor:
    return policy.logprobs(*padded(ROWS), temperature=1.0)[0]


def test_bfloat16_differs_from_float32_by_rounding_only(model: Path):
    exact_N = logprobs(Policy(PolicyConfig(), model))
    for train in ("full", "lora"):
        found_N = logprobs(Policy(PolicyConfig(train=train, precision="bf16"), model))
        assert found_N.dtype == torch.float32
        assert 0 < (found_N - exact_N).abs().max() < 0.03


def test_trainable_weights_are_in_float32_at_any_precision(model: Path):
    for train in ("full", "lora"):
        policy = Policy(PolicyConfig(train=train, precision="bf16"), model)
        assert {each.dtype for each in policy.parameters()} == {torch.float32}


def test_only_the_targets_that_are_named_get_an_adapter(model: Path, tmp_path: Path):
    config = PolicyConfig(
        train="lora", lora_rank=2, lora_alpha=5, lora_targets=("q_proj", "up_proj")
    )
    Policy(config, model).save(tmp_path)
    names = {name.split(".")[-3] for name in load_file(tmp_path / "adapter_model.safetensors")}
    assert names == {"q_proj", "up_proj"}
    settings = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (settings["r"], settings["lora_alpha"], settings["lora_dropout"]) == (2, 5, 0.0)


@pytest.mark.parametrize("changes", [{"lora_rank": 0}, {"lora_rank": -3}, {"lora_rank": 1 << 60}])
def test_whatever_peft_says_of_a_model_is_an_error_of_the_learner(
    changes: dict[str, int], model: Path
):
    config = msgspec.structs.replace(PolicyConfig(train="lora"), **changes)
    with pytest.raises(LearnerError, match=r"policy.train: lora needs a model .*or policy.train"):
        Policy(config, model)


def test_an_adapter_names_its_base_and_loads_without_this_project(model: Path, tmp_path: Path):
    policy = Policy(PolicyConfig(train="lora", lora_rank=2), model)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.1
    policy.save(tmp_path)
    base = json.loads((tmp_path / "adapter_config.json").read_text())["base_model_name_or_path"]
    plain = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), str(tmp_path))
    ids_B_T, mask_B_T = padded(ROWS)
    logits_B_T_V = plain(input_ids=ids_B_T).logits[:, :-1]
    expected_B_T = logits_B_T_V.log_softmax(-1).gather(2, ids_B_T[:, 1:, None])[:, :, 0]
    assert torch.allclose(logprobs(policy), expected_B_T[mask_B_T[:, 1:]], atol=1e-5)


def test_an_adapter_of_a_model_of_the_hub_names_it_as_the_hub_does(model: Path, tmp_path: Path):
    Policy(PolicyConfig(model="Qwen/Qwen3-4B", train="lora", lora_rank=2), model).save(tmp_path)
    settings = json.loads((tmp_path / "adapter_config.json").read_text())
    assert settings["base_model_name_or_path"] == "Qwen/Qwen3-4B"


def test_the_reference_of_an_adapter_is_the_model_without_it(model: Path):
    plain_N = logprobs(Policy(PolicyConfig(), model))
    policy = Policy(PolicyConfig(train="lora", lora_rank=2), model)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.1
    assert not torch.allclose(logprobs(policy), plain_N, atol=1e-3)
    assert torch.equal(policy.reference_logprobs(*padded(ROWS), temperature=1.0), plain_N)


def test_the_reference_of_full_weights_is_a_copy_that_does_not_learn(model: Path):
    plain_N = logprobs(Policy(PolicyConfig(), model))
    policy = Policy(PolicyConfig(), model, with_reference=True)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.1
    assert torch.equal(policy.reference_logprobs(*padded(ROWS), temperature=1.0), plain_N)


def test_no_model_is_read_with_dropout(model: Path, tmp_path: Path):
    plain = AutoModelForCausalLM.from_pretrained(model)
    plain.config.attention_dropout = 0.5
    plain.save_pretrained(tmp_path)
    assert read_model(tmp_path).config.attention_dropout == 0.0
    config = PolicyConfig(gradient_checkpointing=True)
    first_N, second_N = (logprobs(Policy(config, tmp_path)) for _ in range(2))
    assert torch.equal(first_N, second_N)
