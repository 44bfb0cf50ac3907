import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen3Config, Qwen3ForCausalLM

from coevolve.launcher.preflight import refuse_missing
from coevolve.models.model_folder import check_model
from coevolve.models.vocabulary_rows import check_rows
from protocols.config import PolicyConfig, RunConfig
from protocols.errors import ConfigError
from tests.coevolve.environments.tools.chat import models

SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 16,
}
HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"


def model(folder: Path, *, lacking: int = 0, tied: bool = True, special: tuple[str, ...] = ()):
    """Write a model whose embedding lacks rows for the last tokens of its tokenizer."""
    tokenizer = models.tokenizer_with(models.TAGS)
    tokenizer.add_special_tokens({"additional_special_tokens": list(special)})
    rows = len(tokenizer) - lacking
    config = Qwen3Config(vocab_size=rows, tie_word_embeddings=tied, **SIZES)
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def change(folder: Path, **tensors: torch.Tensor) -> None:
    file = folder / "model.safetensors"
    names = {"head": HEAD, "embedding": EMBEDDING}
    own = {names[name]: tensor for name, tensor in tensors.items()}
    save_file(load_file(file) | own, file, metadata={"format": "pt"})


def configure(folder: Path, **settings: object) -> None:
    path = folder / "config.json"
    kept = json.loads(path.read_text()) | settings
    path.write_text(json.dumps({name: value for name, value in kept.items() if value is not None}))


def embedding(folder: Path) -> torch.Tensor:
    return load_file(folder / "model.safetensors")[EMBEDDING]


@pytest.mark.parametrize("lacking", [1, 3, 6])
@pytest.mark.parametrize("tied", [True, False])
def test_a_token_without_a_row_is_refused(tmp_path: Path, lacking: int, tied: bool) -> None:
    model(tmp_path, lacking=lacking, tied=tied)
    needed = len(models.tokenizer_with(models.TAGS))
    words = rf"found {needed} tokens in tokenizer.json and {needed - lacking} rows"
    with pytest.raises(ConfigError, match=words):
        check_model(PolicyConfig(model=str(tmp_path)), ())
    with pytest.raises(ConfigError, match="resize_token_embeddings"):
        refuse_missing(
            RunConfig(name="test", arm="static", policy=PolicyConfig(model=f"{tmp_path}"))
        )


def test_special_tokens_need_rows_only_if_a_template_writes_them(tmp_path: Path) -> None:
    model(tmp_path, lacking=1, special=("<image_soft_token>",))
    check_rows(tmp_path)
    template = tmp_path / "chat_template.jinja"
    template.write_text(f"{template.read_text()}<image_soft_token>")
    with pytest.raises(ConfigError, match="a row of its embedding for each token"):
        check_rows(tmp_path)


def test_more_rows_than_tokens_are_padding(tmp_path: Path) -> None:
    model(tmp_path, lacking=-13)
    check_rows(tmp_path)


@pytest.mark.parametrize("change_of", ["values", "one value", "rows"])
def test_a_head_of_its_own_in_a_tied_model_is_refused(tmp_path: Path, change_of: str) -> None:
    model(tmp_path)
    head = embedding(tmp_path).clone()
    if change_of == "values":
        head = torch.randn_like(head)
    elif change_of == "one value":
        head[-1, -1] += 1
    else:
        head = torch.cat([head, head[:8]])
    change(tmp_path, head=head)
    with pytest.raises(ConfigError, match=r"lm_head.weight.*|tie_word_embeddings is true"):
        check_model(PolicyConfig(model=str(tmp_path)), ())
    if change_of != "rows":
        configure(tmp_path, tie_word_embeddings=False)
        check_rows(tmp_path)


def test_a_model_class_that_ties_by_default_is_refused_with_another_head(tmp_path: Path) -> None:
    model(tmp_path)
    change(tmp_path, head=embedding(tmp_path) + 1)
    configure(tmp_path, tie_word_embeddings=None, model_type="gemma3_text")
    with pytest.raises(ConfigError, match="tie_word_embeddings is true"):
        check_rows(tmp_path)


def test_a_copy_of_the_embedding_as_head_is_accepted(tmp_path: Path) -> None:
    model(tmp_path)
    change(tmp_path, head=embedding(tmp_path).clone())
    check_rows(tmp_path)


def test_weights_with_other_rows_than_the_config_says_are_refused(tmp_path: Path) -> None:
    model(tmp_path, tied=False)
    configure(tmp_path, vocab_size=len(embedding(tmp_path)) + 64)
    with pytest.raises(ConfigError, match="as many rows in its embedding and head"):
        check_rows(tmp_path)


@pytest.mark.parametrize("said", [False, None])
def test_a_model_that_is_not_tied_needs_a_head(tmp_path: Path, said: bool | None) -> None:
    model(tmp_path)  # its weights have no head
    configure(tmp_path, tie_word_embeddings=said)
    with pytest.raises(ConfigError, match=r"needs a head.* found no lm_head.weight"):
        check_model(PolicyConfig(model=str(tmp_path)), ())
    change(tmp_path, head=embedding(tmp_path) + 1)
    check_rows(tmp_path)


def test_a_head_may_have_another_name(tmp_path: Path) -> None:
    model(tmp_path)
    configure(tmp_path, tie_word_embeddings=False)
    file = tmp_path / "model.safetensors"
    weights = {**load_file(file), "output.weight": embedding(tmp_path) + 1}
    save_file(weights, file, metadata={"format": "pt"})
    check_rows(tmp_path)


def test_a_model_whose_text_part_is_tied_needs_no_head(tmp_path: Path) -> None:
    model(tmp_path)
    configure(tmp_path, tie_word_embeddings=False, text_config={"tie_word_embeddings": True})
    check_rows(tmp_path)
