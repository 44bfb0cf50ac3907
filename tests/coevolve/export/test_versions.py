"""What is said of a damaged version, and what takes its place."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from coevolve.export.versions import find_version
from coevolve.history.directory import RunDirectory
from coevolve.history.progress import Progress
from coevolve.journal.reader import run_reader
from coevolve.learning.checkpoint_folder import STATE_FILE
from coevolve.learning.sharded.shards import INDEX_FILE
from coevolve.models.weight_files import version_digest
from protocols.config import RunConfig
from protocols.errors import CheckpointError, RunError
from tests.coevolve.export.conftest import Refusal
from tests.exporting import move_to_checkpoint, settings, write_run, write_versions

CONFIG = settings(RunConfig(name="trial"))
CHANGED = "model.safetensors or its settings were changed"


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run with the versions 0 and 1."""
    versions = write_versions(tmp_path / "w", CONFIG, (0, 1))
    run = write_run(tmp_path / "run", CONFIG, versions)
    shutil.move(tmp_path / "w" / "versions", run.path / "versions")
    return run


def flip(file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))


def nan(file: Path) -> None:
    tensors = load_file(file)
    next(iter(tensors.values())).view(-1)[0] = torch.nan
    save_file(tensors, file, {"format": "pt"})


def exchange(file: Path) -> None:
    other = file.parents[1] / "v_0" / file.name
    own = file.read_bytes()
    file.write_bytes(other.read_bytes())
    other.write_bytes(own)


def replace(file: Path, make: Callable[[Path], object]) -> None:
    file.unlink()
    make(file)


def config_of(file: Path) -> Path:
    return file.with_name("config.json")


DAMAGES: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "a flipped bit": (flip, CHANGED),
    "truncated": (lambda file: os.truncate(file, 1000), CHANGED),
    "empty": (lambda file: os.truncate(file, 0), CHANGED),
    "a NaN": (nan, CHANGED),
    "another version's": (exchange, CHANGED),
    "settings of another run": (lambda file: config_of(file).write_text("{}"), CHANGED),
    "no settings": (lambda file: config_of(file).unlink(), "No such file"),
    "a folder as settings": (lambda file: replace(config_of(file), Path.mkdir), "Is a directory"),
    "a pipe as settings": (lambda file: replace(config_of(file), os.mkfifo), "is a pipe"),
}
"""What happens to version 1, and what is said."""

GONE: Mapping[str, Callable[[Path], object]] = {
    "missing": lambda file: file.unlink(),
    "a pipe": lambda file: replace(file, os.mkfifo),
    "a device": lambda file: replace(file, lambda at: at.symlink_to("/dev/zero")),
    "a folder": lambda file: replace(file, Path.mkdir),
    "a link to nowhere": lambda file: replace(file, lambda at: at.symlink_to("nowhere")),
    "a link to itself": lambda file: replace(file, lambda at: at.symlink_to(at.name)),
}
"""What stands in the place of the weights of version 1."""


async def chosen(run: RunDirectory, wanted: str) -> Path:
    found = await find_version(run.path, run_reader(run.path), wanted, Progress({}))
    return found.unpacked(CONFIG, run.path.parent / "unpacked").folder


def weights(run: RunDirectory) -> Path:
    return run.path / "versions" / "v_1" / "model.safetensors"


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_version_is_refused_with_its_fault(run: RunDirectory, damage: str):
    act, expected = DAMAGES[damage]
    act(weights(run))
    with pytest.raises(
        RunError, match=r"version 1 is damaged: .*choose another version"
    ) as refused:
        await chosen(run, "newest")
    assert expected in str(refused.value)


@pytest.mark.parametrize("instead", GONE)
async def test_what_is_no_file_of_weights_is_no_version(run: RunDirectory, instead: str):
    GONE[instead](weights(run))
    assert await chosen(run, "newest") == run.path / "versions" / "v_0"
    with pytest.raises(RunError, match=r"version 1 is not available.*weights exist for version 0"):
        await chosen(run, "1")


async def test_a_damaged_version_is_read_from_its_checkpoint(run: RunDirectory):
    digest = version_digest(weights(run).parent, "full")
    shutil.copytree(weights(run).parent, run.path.parent / "kept")
    move_to_checkpoint(run, 1)
    shutil.move(run.path.parent / "kept", weights(run).parent)
    flip(weights(run))
    folder = await chosen(run, "1")
    assert folder == run.path.parent / "unpacked"
    assert version_digest(folder, "full") == digest


@pytest.mark.parametrize("file", [INDEX_FILE, "__0_0.distcp", STATE_FILE, "new"])
async def test_a_checkpoint_that_is_not_as_recorded_is_not_parsed(run: RunDirectory, file: str):
    move_to_checkpoint(run, 1)
    path = run.path / "checkpoints/step_1" / file
    path.write_bytes((path.read_bytes() if path.exists() else b"") + b"\n")
    with pytest.raises(CheckpointError, match="is incomplete or was changed: its digest is"):
        await chosen(run, "1")


def test_an_export_of_a_damaged_version_leaves_nothing(
    run: RunDirectory, refusal: Refusal, tmp_path: Path
):
    flip(weights(run))
    said = refusal(run.path, "merged", "--to", tmp_path / "out" / "policy")
    assert f"version 1 is damaged: its {CHANGED}: their digest is" in said
    assert "weights exist for version 0, 1" in said
    assert not (tmp_path / "out").exists()
