from pathlib import Path

import pytest

from coevolve.learning.model_folder import model_folder
from protocols.errors import ConfigError


def test_tiny_is_the_model_that_is_shipped():
    assert (model_folder("tiny") / "config.json").is_file()


def test_any_folder_with_config_and_weights_is_a_model(tmp_path: Path):
    (tmp_path / "config.json").touch()
    (tmp_path / "model-00001-of-00002.safetensors").touch()
    assert model_folder(str(tmp_path)) == tmp_path


def test_a_missing_folder_is_refused_with_a_remedy(tmp_path: Path):
    with pytest.raises(
        ConfigError, match=r"policy.model: needs 'tiny' or a folder .*'gone'.*download"
    ):
        model_folder("gone")


def test_a_folder_without_weights_is_refused(tmp_path: Path):
    (tmp_path / "config.json").touch()
    with pytest.raises(ConfigError, match=r"holds no \*\.safetensors; give a folder that"):
        model_folder(str(tmp_path))
