from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from coevolve.learning.sharded.ranks import ALONE
from coevolve.learning.sharded.shards import (
    names_of,
    read_safetensors,
    read_shards,
    write_shards,
)
from protocols.errors import CheckpointError

TENSORS = {"a": torch.arange(6.0).reshape(3, 2), "b.step": torch.tensor(7.0)}


def blank() -> dict[str, torch.Tensor]:
    return {name: torch.zeros_like(tensor) for name, tensor in TENSORS.items()}


def test_tensors_are_read_into_given_ones(tmp_path: Path):
    write_shards(TENSORS, tmp_path, ALONE)
    found = blank()
    read_shards(found, tmp_path, ALONE)
    assert set(names_of(tmp_path)) == TENSORS.keys()
    assert all(found[name].equal(tensor) for name, tensor in TENSORS.items())


def test_safetensors_are_read_into_the_precision_of_given_ones(tmp_path: Path):
    save_file({"a": TENSORS["a"].bfloat16(), "other": torch.zeros(2)}, tmp_path / "x.safetensors")
    found = {"a": torch.zeros(3, 2)}
    read_safetensors(found, tmp_path, ALONE)
    assert found["a"].equal(TENSORS["a"])


def test_what_is_missing_is_named(tmp_path: Path):
    write_shards(TENSORS, tmp_path, ALONE)
    with pytest.raises(CheckpointError, match=r"rank 0: .*c.*restore that folder"):
        read_shards({"c": torch.zeros(1)}, tmp_path, ALONE)
    (tmp_path / "__0_0.distcp").unlink()
    with pytest.raises(CheckpointError, match=r"__0_0.distcp.*restore that folder"):
        read_shards(blank(), tmp_path, ALONE)


def test_a_folder_without_shards_is_named(tmp_path: Path):
    with pytest.raises(CheckpointError, match=r"holds no checkpoint.*remove the folder"):
        names_of(tmp_path)


def test_a_folder_that_cannot_be_written_is_an_error_of_the_disk(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"rank 0: .*file"):
        write_shards(TENSORS, tmp_path / "file", ALONE)
