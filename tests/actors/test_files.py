"""Copies of a run's folder, as a node without it has them."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import ray

from actors.files import FilesActor
from actors.remote_files import RemoteFiles
from coevolve.models.atomic_folder import folder_digest
from coevolve.parts.files import LocalFiles
from protocols.errors import TransferError

pytestmark = pytest.mark.ray


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for number in range(4):
        written(tmp_path / f"home/versions/v_{number}", f"weights {number}")
    return tmp_path / "home"


@pytest.fixture
def files(cluster: None, home: Path, tmp_path: Path) -> Generator[RemoteFiles]:
    actor: Any = FilesActor.remote(home, None)
    yield RemoteFiles(actor, tmp_path / "copies")
    ray.kill(actor)


def written(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "weights").write_text(text)
    return folder


def put(file: Path, text: str) -> None:
    file.write_text(text)


async def test_a_copy_is_made_once_and_follows_its_original(files: RemoteFiles, home: Path):
    copy = await files.fetch("versions/v_1")
    assert (copy / "weights").read_text() == "weights 1"
    made = (copy / "weights").stat().st_ino
    await files.fetch("versions/v_1")
    assert (copy / "weights").stat().st_ino == made
    (home / "versions/v_1/weights").write_text("other weights")
    await files.fetch("versions/v_1")
    assert (copy / "weights").read_text() == "other weights"


async def test_only_the_newest_copies_stay(files: RemoteFiles):
    for number in range(4):
        await files.fetch(f"versions/v_{number}", keep=2)
    assert sorted(each.name for each in files.folder.glob("versions/v_*")) == ["v_2", "v_3"]
    assert await files.names("versions") == ["v_0", "v_1", "v_2", "v_3"]


async def test_what_a_node_publishes_is_in_the_run_s_folder(files: RemoteFiles, home: Path):
    written(files.folder / "versions/v_9", "weights 9")
    await files.publish("versions/v_9")
    assert (home / "versions/v_9/weights").read_text() == "weights 9"
    await files.remove("versions/v_9")
    assert not (home / "versions/v_9").exists()
    assert not (files.folder / "versions/v_9").exists()


async def test_nodes_make_one_folder_together(files: RemoteFiles, home: Path, tmp_path: Path):
    other = RemoteFiles(files._actor, tmp_path / "others")
    here = LocalFiles(home)

    def write(partial: Path) -> None:
        (partial / "rank_0").write_text("a")
        other.contribute("checkpoints/step_1", lambda place: put(place / "rank_1", "bb"))
        here.contribute("checkpoints/step_1", lambda place: put(place / "rank_2", "ccc"))
        assert not (home / "checkpoints/step_1").exists()

    digest, size_bytes = files.assemble("checkpoints/step_1", write)
    made = home / "checkpoints/step_1"
    assert {each.name: each.read_text() for each in made.iterdir()} == {
        "rank_0": "a",
        "rank_1": "bb",
        "rank_2": "ccc",
    }
    assert (digest, size_bytes) == (folder_digest(made), 6)
    assert not (files.folder / "checkpoints/step_1").exists()
    assert folder_digest(await other.fetch("checkpoints/step_1")) == digest


async def test_a_folder_of_one_node_is_not_copied_back(files: RemoteFiles, home: Path):
    files.assemble("checkpoints/step_2", lambda partial: put(partial / "rank_0", "a"))
    kept = (files.folder / "checkpoints/step_2/rank_0").stat().st_ino
    await files.fetch("checkpoints/step_2")
    assert (files.folder / "checkpoints/step_2/rank_0").stat().st_ino == kept


async def test_a_folder_that_is_not_there_is_an_error_with_its_name(files: RemoteFiles):
    with pytest.raises(TransferError, match="versions/v_7: cannot be sent to other nodes"):
        await files.fetch("versions/v_7")
    assert not (files.folder / "versions/v_7").exists()
