import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

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


def _index(folder: Path) -> dict[str, Any]:
    return json.loads((folder / INDEX_FILE).read_bytes())


def _changed(name: str, **part: object) -> Callable[[dict[str, Any]], None]:
    """Return what changes the first part of a tensor in an index."""
    return lambda index: index[name]["parts"][0].update(part)


HOSTILE: dict[str, Callable[[dict[str, Any]], None]] = {
    "a path": _changed("a", file="../__0_0.distcp"),
    "an absolute path": _changed("a", file="/etc/passwd"),
    "another file": _changed("a", file="trainer_state.json"),
    "a negative place": _changed("a", start=-8),
    "a place behind the end": _changed("a", start=1 << 40),
    "a place of bytes": _changed("a", offsets="AAAA"),
    "sizes of another kind": _changed("a", sizes=[{"a": 1}]),
    "an unknown field": _changed("a", transform_descriptors=["pickle"]),
    "no parts": lambda index: index["a"].pop("parts"),
    "objects in place of a tensor": lambda index: index["a"].update(dtype="object"),
    "a type that is none": lambda index: index["a"].update(dtype="__class__"),
    "no tensor": lambda index: index.update(a=None),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_an_index_of_a_stranger_leads_nowhere(tmp_path: Path, kind: str):
    folder = tmp_path / "checkpoint"
    write_shards(TENSORS, folder, ALONE)
    (tmp_path / "__0_0.distcp").write_bytes((folder / "__0_0.distcp").read_bytes())
    index = _index(folder)
    HOSTILE[kind](index)
    (folder / INDEX_FILE).write_text(json.dumps(index))
    with pytest.raises(CheckpointError):
        read_shards(blank(), folder, ALONE)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"[[[[" * 100_000, b"\xff\xfe", b"1e999"])
def test_an_index_that_is_none_is_refused(tmp_path: Path, content: bytes):
    write_shards(TENSORS, tmp_path, ALONE)
    (tmp_path / INDEX_FILE).write_bytes(content)
    with pytest.raises(CheckpointError):
        read_shards(blank(), tmp_path, ALONE)
    with pytest.raises(CheckpointError, match=r"holds no checkpoint.*remove the folder"):
        names_of(tmp_path)


@pytest.mark.parametrize("place", [INDEX_FILE, ".metadata", "__0_0.distcp"])
@pytest.mark.parametrize("call", [Path.touch, torch.load, print])
def test_nothing_of_a_checkpoint_is_unpickled_to_code(
    tmp_path: Path, place: str, call: Callable[..., object]
):
    folder, mark = tmp_path / "checkpoint", tmp_path / "mark"
    write_shards(TENSORS, folder, ALONE)
    (folder / place).write_bytes(pickle.dumps(_Runs(call, mark)))
    if place == ".metadata":
        read_shards(blank(), folder, ALONE)
    else:
        with pytest.raises(CheckpointError):
            read_shards(blank(), folder, ALONE)
    assert not mark.exists()


@pytest.mark.parametrize("kind", ["a link", "a pipe", "cut"])
def test_files_of_another_kind_are_not_read(tmp_path: Path, kind: str):
    folder = tmp_path / "checkpoint"
    write_shards(TENSORS, folder, ALONE)
    path = folder / INDEX_FILE
    if kind == "a link":
        (folder / "__0_0.distcp").rename(tmp_path / "outside")
        (folder / "__0_0.distcp").symlink_to(tmp_path / "outside")
    elif kind == "a pipe":
        path.unlink()
        os.mkfifo(path)
    else:
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CheckpointError):
        read_shards(blank(), folder, ALONE)
