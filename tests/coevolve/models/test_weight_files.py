"""Digests stay equal to those that earlier runs recorded."""

import json
from pathlib import Path

from coevolve.models.atomic_folder import folder_digest
from coevolve.models.weight_files import model_digest, with_settings

# From sha256sum, over lines of a name, a zero byte and the file's digest.
MODEL = "3927b3a37e0be2951167cf28a4901b85e4639efddb659a1c00b3a757f5c4e3bc"
FOLDER = "3dbdfcc68b7c39f07b6f338d96e55cdb48ec9f75eaf43f2bba99731aed10e142"


def test_the_digest_of_a_model_is_as_recorded(tmp_path: Path) -> None:
    (tmp_path / "b.safetensors").write_bytes(b"22")
    (tmp_path / "a.safetensors").write_bytes(b"1")
    (tmp_path / "config.json").write_bytes(b"{}")
    (tmp_path / "README.md").write_bytes(b"not part of it")
    assert model_digest(tmp_path) == MODEL


def test_the_digest_of_a_folder_is_as_recorded(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"1")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "state").write_bytes(b"22")
    assert folder_digest(tmp_path) == FOLDER


def test_a_version_is_the_same_wherever_its_base_lies_and_in_whichever_order_names_stand() -> None:
    settings = {"r": 8, "target_modules": ["q", "k"], "base_model_name_or_path": "/here"}
    moved = {"base_model_name_or_path": "/there", "target_modules": ["k", "q"], "r": 8}
    digest = with_settings("d", json.dumps(settings).encode())
    assert with_settings("d", json.dumps(moved).encode()) == digest
    for other in ({**settings, "r": 9}, {**settings, "target_modules": ["q"]}):
        assert with_settings("d", json.dumps(other).encode()) != digest
    assert with_settings("e", json.dumps(settings).encode()) != digest
