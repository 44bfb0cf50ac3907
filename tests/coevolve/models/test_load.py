import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from coevolve.models import load as reading
from coevolve.models.load import read_model, read_outline
from protocols.errors import ConfigError
from tests.serving import new_model


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


def test_code_of_a_model_folder_is_not_executed_and_nobody_is_asked(folder: Path):
    config = json.loads((folder / "config.json").read_text())
    planted = {"model_type": "planted", "auto_map": {"AutoConfig": "planted.Planted"}}
    (folder / "config.json").write_text(json.dumps(config | planted))
    ran = folder / "ran"
    (folder / "planted.py").write_text(f"open({str(ran)!r}, 'w')\nclass Planted: ...\n")
    with pytest.raises(ConfigError, match="must be that of a causal language model"):
        read_model(folder)
    assert not ran.exists()


def test_weights_that_are_pickled_are_not_read(folder: Path):
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="found 0 numbers for a model of"):
        read_model(folder)
