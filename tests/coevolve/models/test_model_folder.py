import json
import re
import shutil
from pathlib import Path

import pytest

from coevolve.models.architecture import KNOWN
from coevolve.models.load import read_model
from coevolve.models.model_folder import (
    TINY_FOLDER,
    check_model,
    model_config,
    model_folder,
    whole_model,
)
from protocols.config import PolicyConfig
from protocols.errors import ConfigError, DependencyError

QWEN = "Qwen/Qwen3-4B-Instruct-2507"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty Hugging Face cache that replaces the user's."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    return tmp_path


def cached(cache: Path, name: str, *files: str) -> Path:
    """Put a model into the cache as huggingface_hub does."""
    place = cache / f"models--{name.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("abc")
    folder = place / "snapshots" / "abc"
    folder.mkdir(parents=True)
    for file in files:
        (folder / file).write_text("{}")
    return folder


def refusal(name: str) -> str:
    with pytest.raises(DependencyError) as caught:
        model_folder(name)
    return str(caught.value)


def test_tiny_is_the_model_that_is_shipped():
    assert (model_folder("tiny") / "config.json").is_file()


def test_any_folder_with_config_and_weights_is_a_model(tmp_path: Path):
    (tmp_path / "config.json").touch()
    (tmp_path / "model-00001-of-00002.safetensors").touch()
    assert model_folder(str(tmp_path)) == tmp_path


@pytest.mark.parametrize("content", ["{}", "no JSON", None])
def test_a_model_with_an_adapter_beside_its_weights_is_refused(tmp_path: Path, content: str | None):
    shutil.copytree(TINY_FOLDER, tmp_path, dirs_exist_ok=True)
    assert model_folder(str(tmp_path)) == tmp_path
    adapter = tmp_path / "adapter_config.json"
    if content is None:
        adapter.symlink_to("nowhere")
    else:
        adapter.write_text(content)
    for read in (lambda: model_folder(str(tmp_path)), lambda: read_model(tmp_path)):
        with pytest.raises(ConfigError, match=r"adapter_config.json is the adapter.*merge the"):
            read()


def test_a_name_of_hugging_face_is_looked_up_in_its_cache(cache: Path):
    folder = cached(cache, "Some/Model", "config.json", "model.safetensors")
    assert model_folder("Some/Model") == folder


def test_a_model_that_is_not_in_the_cache_is_refused_with_the_command_that_downloads_it(
    cache: Path,
):
    said = refusal(QWEN)
    assert f"{QWEN} needs to be a folder or a model in Hugging Face's cache" in said
    assert f"hf download {QWEN}" in said
    assert "policy.tiny_random=true" in said


def test_a_download_that_broke_off_is_refused_with_what_is_missing(cache: Path):
    folder = cached(cache, QWEN, "config.json", "model-00001-of-00002.safetensors")
    shards = {f"tensor{n}": f"model-0000{n}-of-00002.safetensors" for n in (1, 2)}
    index = json.dumps({"weight_map": shards})
    (folder / "model.safetensors.index.json").write_text(index)
    said = refusal(QWEN)
    assert "lacks model-00002-of-00002.safetensors; download the model again" in said
    assert f"hf download {QWEN}" in said


def test_a_missing_folder_is_refused_with_a_remedy():
    with pytest.raises(ConfigError, match="found ''"):
        model_folder("")
    with pytest.raises(ConfigError) as caught:
        model_folder("gone")
    said = str(caught.value)
    assert "policy.model: needs 'tiny', a folder in Hugging Face layout, or the name" in said
    assert "found 'gone'" in said
    assert "`coevolve model fetch` downloads one into a folder" in said


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("q_prj", "; did you mean 'q_proj'?"), ("zzz", "; leave the setting out for all of them")],
)
def test_an_adapter_of_layers_that_the_model_lacks_is_refused(name: str, remedy: str):
    check_model(PolicyConfig(train="lora", lora_targets=("q_proj", "down_proj")), ())
    with pytest.raises(ConfigError, match=rf"q_proj, .*, found '{name}'{re.escape(remedy)}"):
        check_model(PolicyConfig(train="lora", lora_targets=("q_proj", name)), ())


def test_a_folder_without_weights_is_refused(tmp_path: Path):
    (tmp_path / "config.json").touch()
    assert "holds no *.safetensors; give a folder that" in refusal(str(tmp_path))


def test_a_config_on_disk_counts_before_the_one_that_is_known(cache: Path):
    assert model_config(PolicyConfig(model=QWEN)) == KNOWN[QWEN]
    folder = cached(cache, QWEN, "model.safetensors")
    (folder / "config.json").write_text('{"model_type": "qwen3", "hidden_size": 8}')
    assert model_config(PolicyConfig(model=QWEN))["hidden_size"] == 8


def test_a_config_alone_is_enough_to_know_the_sizes_of_a_model(cache: Path):
    (cached(cache, "Some/Model") / "config.json").write_text('{"hidden_size": 8}')
    assert model_config(PolicyConfig(model="Some/Model")) == {"hidden_size": 8}
    assert "holds no *.safetensors" in refusal("Some/Model")
    assert whole_model("Some/Model") is None


def test_the_config_of_a_model_that_is_neither_on_disk_nor_known_is_refused(cache: Path):
    with pytest.raises(ConfigError, match=r"hf download Some/Model config\.json"):
        model_config(PolicyConfig(model="Some/Model"))
