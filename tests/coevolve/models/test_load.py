import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Gemma2Config, Gemma2ForCausalLM, PreTrainedModel

from coevolve.models import load as reading
from coevolve.models.chat_template import read_tokenizer
from coevolve.models.load import read_model, read_outline
from protocols.errors import ConfigError
from tests.serving import SHAPE, new_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    new_model("qwen3").save_pretrained(tmp_path)
    return tmp_path


def test_an_outline_has_the_tables_and_the_ties_of_the_model(folder: Path):
    model, outline = read_model(folder), read_outline(folder)
    assert [name for name, _ in outline.named_parameters()] == [
        name for name, _ in model.named_parameters()
    ]
    assert all(each.device.type == "meta" for each in outline.parameters())
    tables = dict(outline.named_buffers())
    assert tables
    for name, table in model.named_buffers():
        assert torch.equal(tables[name], table)


@pytest.mark.parametrize("read", [read_model, read_outline])
@pytest.mark.parametrize("cap", [None, 2.0])
def test_only_a_model_that_caps_the_logits_of_attention_pays_for_it(
    read: Callable[[Path], PreTrainedModel], cap: float | None, tmp_path: Path
):
    shape: dict[str, Any] = SHAPE | {"attn_logit_softcapping": cap}
    Gemma2ForCausalLM(Gemma2Config(**shape)).save_pretrained(tmp_path)
    pays = cap or not Gemma2ForCausalLM._supports_sdpa  # with transformers 5.24 the family pays
    assert read(tmp_path).config._attn_implementation == ("eager" if pays else "sdpa")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "t5"}, "causal language model which transformers .* supports: found t5;"),
        ({"model_type": "tomorrow"}, "supports: .*tomorrow"),
    ],
)
@pytest.mark.parametrize("read", [read_model, read_outline])
def test_a_model_that_is_no_policy_is_refused(
    read: Callable[[Path], object], config: dict[str, str], words: str, tmp_path: Path
):
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match=words):
        read(tmp_path)


def test_weights_are_tied_while_nobody_else_reads_a_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    tie, alone = PreTrainedModel.tie_weights, list[bool]()

    def watched(model: PreTrainedModel, *words: object, **options: object):
        alone.append(reading._READING.locked())
        return tie(model, *words, **options)  # pyright: ignore

    monkeypatch.setattr(PreTrainedModel, "tie_weights", watched)
    read_outline(folder)
    assert alone
    assert all(alone)


def test_weights_that_are_pickled_are_not_read(folder: Path):
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="found 0 numbers for a model of"):
        read_model(folder)


def test_weights_that_lack_a_tensor_are_refused(folder: Path):
    file = folder / "model.safetensors"
    tensors = load_file(file)
    name = next(each for each in tensors if "q_proj" in each)
    save_file(tensors | {"spare": tensors[name].clone()}, file)
    assert read_model(folder)
    save_file({"spare" if each == name else each: tensors[each] for each in tensors}, file)
    with pytest.raises(
        ConfigError, match=f"found 1 missing or of another shape, the first .*{name}"
    ):
        read_model(folder)


def test_a_config_that_asks_for_more_than_the_weights_is_refused_without_the_memory(folder: Path):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": 2**31 - 1}))
    with pytest.raises(
        ConfigError, match=r"needs weights that fit its config.json, found \d+ numbers"
    ):
        read_model(folder)
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 10**9}))
    with pytest.raises(
        ConfigError, match="needs at most 2000 as num_hidden_layers, found 1000000000"
    ):
        read_model(folder)


@pytest.mark.parametrize(
    ("file", "settings", "read"),
    [
        ("config.json", {"auto_map": {"AutoConfig": "own.Own"}, "model_type": "own"}, read_model),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["own.Own", 0]}}, read_tokenizer),
    ],
)
def test_code_in_a_model_folder_is_neither_run_nor_offered(
    folder: Path,
    file: str,
    settings: dict[str, object],
    read: Callable[[Path], object],
    capfd: pytest.CaptureFixture[str],
):
    (folder / "own.py").write_text("raise SystemExit('code of the folder ran')")
    (folder / file).write_text(json.dumps(settings))
    with contextlib.suppress(ConfigError):
        read(folder)
    assert "[y/N]" not in "".join(capfd.readouterr())
