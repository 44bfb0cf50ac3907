"""Facts about transformers' models, their caches and their files."""

import inspect
import json
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, Cache, GPT2Config

SIZES = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "max_position_embeddings": 64,
}
IDS = torch.tensor([[1, 2, 3, 4]])
Auto = cast("Any", AutoModelForCausalLM)


def model(kind: str = "qwen3", **settings: object) -> Any:
    torch.manual_seed(0)
    config = cast("Any", AutoConfig).for_model(kind, **SIZES, **settings)
    return Auto.from_config(config, attn_implementation="sdpa").eval()


def read(folder: Path) -> tuple[Any, dict[str, Any]]:
    return Auto.from_pretrained(folder, local_files_only=True, output_loading_info=True)


class Noting(Cache):
    """A cache that notes its calls and keeps nothing."""

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.calls: list[tuple[torch.Size, torch.Size, int]] = []

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *_: object,
        **__: object,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.calls.append((key_states.shape, value_states.shape, layer_idx))
        return key_states, value_states


@pytest.mark.parametrize("kind", ["qwen3", "llama"])
def test_a_model_hands_keys_and_values_to_its_cache_by_layer(kind: str):
    """Each layer calls `Cache.update` with (rows, heads, tokens, width) twice and its number.

    Needed by: coevolve/engine/kv_slots.py
    """
    cache, made = Noting(), model(kind)
    names = inspect.signature(made.forward).parameters
    name = "cache" if "cache" in names else "past_key_values"
    with torch.no_grad():
        found = made(input_ids=IDS, use_cache=True, **{name: cache}).logits
        plain = made(input_ids=IDS, use_cache=False).logits
    shape = torch.Size((1, 1, 4, 8))
    assert cache.calls == [(shape, shape, 0), (shape, shape, 1)]
    assert torch.allclose(found, plain, atol=1e-6)


@pytest.mark.parametrize("kind", ["qwen3", "llama"])
def test_a_mask_of_four_axes_is_added_to_the_scores_as_it_is(kind: str):
    """A mask (rows, 1, tokens, positions) in the model's precision hides what is minus infinity.

    Needed by: coevolve/engine/engine.py
    """
    made = model(kind)
    hidden = torch.ones(4, 4, dtype=torch.bool).triu(1)
    hidden[1:, 0] = True  # the first token is hidden from the others
    mask = torch.zeros(1, 1, 4, 4).masked_fill_(hidden, float("-inf"))
    positions = torch.arange(4)[None]
    with torch.no_grad():
        masked = made(input_ids=IDS, attention_mask=mask, position_ids=positions).logits
        alone = made(input_ids=IDS[:, 1:], position_ids=positions[:, 1:]).logits
    assert torch.allclose(masked[:, 1:], alone, atol=1e-5)


def test_logits_of_the_last_position_alone():
    """`logits_to_keep=1` returns the logits of the last position only.

    Needed by: coevolve/engine/engine.py, coevolve/learning/scoring.py
    """
    made = model()
    with torch.no_grad():
        kept = made(input_ids=IDS, logits_to_keep=1).logits
        whole = made(input_ids=IDS).logits
    assert kept.shape == (1, 1, 32)
    assert torch.allclose(kept, whole[:, -1:], atol=1e-6)


@pytest.mark.parametrize("kind", ["qwen3", "llama"])
def test_the_head_turns_the_decoder_s_last_state_into_logits(kind: str):
    """`get_output_embeddings` of the `last_hidden_state` of `get_decoder` are the logits.

    Needed by: coevolve/learning/scoring.py
    """
    made = model(kind)
    found: list[Any] = []
    made.get_decoder().register_forward_hook(lambda *given: found.append(given[2]))
    with torch.no_grad():
        whole = made(input_ids=IDS, use_cache=False).logits
        again = made.get_output_embeddings()(found[0].last_hidden_state)
    assert torch.equal(again, whole)


def test_a_missing_tensor_is_reported_and_made_at_random(tmp_path: Path):
    """Reading weights that lack a tensor succeeds, and only `missing_keys` of the report names it.

    Needed by: coevolve/models/load.py
    """
    model().save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    name = "model.layers.0.mlp.up_proj.weight"
    del tensors[name]
    save_file(tensors, file, metadata={"format": "pt"})
    _, report = read(tmp_path)
    assert [*report["missing_keys"]] == [name]
    assert {"mismatched_keys", "error_msgs"} <= report.keys()


def test_tied_weights_are_written_once(tmp_path: Path):
    """Of a tied head only the embedding is written, and reading it reports nothing missing.

    Needed by: coevolve/models/load.py, coevolve/learning/policy.py
    """
    model(tie_word_embeddings=True).save_pretrained(tmp_path)
    assert "lm_head.weight" not in load_file(tmp_path / "model.safetensors")
    made, report = read(tmp_path)
    assert not report["missing_keys"]
    assert made.lm_head.weight is made.model.embed_tokens.weight


def test_a_state_that_is_given_is_written_in_one_file(tmp_path: Path):
    """`save_pretrained` writes a given state with its own names into `model.safetensors`.

    Needed by: coevolve/learning/policy.py, coevolve/models/weight_files.py
    """
    made = model()
    state = {name: torch.zeros_like(each) for name, each in made.state_dict().items()}
    names = {*state}
    made.save_pretrained(
        tmp_path, state_dict=state, max_shard_size="1000GB", save_original_format=False
    )
    written = load_file(tmp_path / "model.safetensors")
    assert written.keys() <= names
    assert not any(each.any() for each in written.values())


def test_the_weights_are_in_the_precision_that_is_asked_for(tmp_path: Path):
    """`dtype` of `from_pretrained` wins over the one in `config.json`.

    Needed by: coevolve/models/load.py
    """
    model().to(torch.bfloat16).save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_bytes())["dtype"] == "bfloat16"
    assert Auto.from_pretrained(tmp_path, dtype=torch.float32).dtype == torch.float32


def test_the_models_of_a_class_of_settings_are_known():
    """`AutoModelForCausalLM._model_mapping` has the settings of causal language models only.

    Needed by: coevolve/models/load.py
    """
    mapping = Auto._model_mapping
    assert GPT2Config in mapping
    assert type(cast("Any", AutoConfig).for_model("bert")) in mapping  # as a decoder
    assert type(cast("Any", AutoConfig).for_model("clip")) not in mapping
    assert mapping[GPT2Config]._supports_sdpa


def test_dropouts_are_numbers_whose_names_have_drop():
    """A setting that drops at random is a number whose name contains `drop`, and is in `to_dict`.

    Needed by: coevolve/models/load.py
    """
    found = {name for name in GPT2Config().to_dict() if "drop" in name}
    assert {"attn_pdrop", "embd_pdrop", "resid_pdrop"} <= found


def test_tables_of_positions_are_no_weights():
    """The table of rotary positions is a buffer that no weights file holds.

    Needed by: coevolve/models/load.py, coevolve/weights/settings.py
    """
    made = model()
    tables = {name for name, _ in made.named_buffers() if name.endswith("inv_freq")}
    assert tables
    assert not tables & made.state_dict().keys()
