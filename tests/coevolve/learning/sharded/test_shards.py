import contextlib
import importlib
import os
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, Metadata

from coevolve.learning.sharded.ranks import ALONE
from coevolve.learning.sharded.shards import (
    INDEX_FILE,
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


class _Runs:
    """Writes a file once it is unpickled."""

    def __init__(self, call: object, *arguments: object) -> None:
        self._made = (call, arguments)

    def __reduce__(self) -> Any:
        return self._made


def _index(folder: Path) -> Metadata:
    return pickle.loads((folder / INDEX_FILE).read_bytes())


HOSTILE: dict[str, Callable[[Path], Any]] = {
    "a call": lambda mark: _Runs(Path.touch, mark),
    "a shell": lambda mark: _Runs(subprocess.run, ["touch", str(mark)]),
    "evaluated text": lambda mark: _Runs(eval, f"open({str(mark)!r}, 'w')"),
    "an import": lambda mark: _Runs(importlib.import_module, "antigravity"),
    "a loader of torch": lambda mark: _Runs(torch.load, str(mark)),
    "an object of bytes": lambda mark: BytesStorageMetadata(),
    "no index": lambda mark: {"a": 1},
}


@pytest.mark.parametrize("kind", [*HOSTILE, "nested", "cut", "a path", "a link", "a pipe"])
def test_an_index_of_a_stranger_runs_nothing_and_leads_nowhere(tmp_path: Path, kind: str):
    folder, mark = tmp_path / "checkpoint", tmp_path / "mark"
    write_shards(TENSORS, folder, ALONE)
    index, path = _index(folder), folder / INDEX_FILE
    if kind == "nested":
        index.planner_data = {"a": [_Runs(Path.touch, mark)]}
        path.write_bytes(pickle.dumps(index))
    elif kind == "cut":
        path.write_bytes(path.read_bytes()[:-9])
    elif kind == "a path":
        (tmp_path / "__0_0.distcp").write_bytes((folder / "__0_0.distcp").read_bytes())
        for each in index.storage_data.values():
            each.relative_path = "../__0_0.distcp"
        path.write_bytes(pickle.dumps(index))
    elif kind == "a link":
        (folder / "__0_0.distcp").rename(tmp_path / "outside")
        (folder / "__0_0.distcp").symlink_to(tmp_path / "outside")
    elif kind == "a pipe":
        path.unlink()
        os.mkfifo(path)
    else:
        index.state_dict_metadata["a"] = HOSTILE[kind](mark)
        path.write_bytes(pickle.dumps(index if kind != "no index" else HOSTILE[kind](mark)))
    if kind == "an object of bytes":
        (folder / "__0_0.distcp").write_bytes(pickle.dumps(_Runs(Path.touch, mark)))
    with pytest.raises(CheckpointError):
        read_shards(blank(), folder, ALONE)
    assert not mark.exists()
    with contextlib.suppress(CheckpointError):
        names_of(folder)
    assert not mark.exists()
