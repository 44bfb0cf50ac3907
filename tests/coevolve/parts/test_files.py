from pathlib import Path

import pytest

from coevolve.models.atomic_folder import folder_digest
from coevolve.parts.files import MODEL_COPY, LocalFiles, SentFolders, listing_of, names
from protocols.errors import TransferError


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "run/versions/v_1"
    folder.mkdir(parents=True)
    (folder / "weights").write_bytes(b"0123456789")
    (folder / "config.json").write_bytes(b"")
    return tmp_path / "run"


def test_a_folder_that_was_sent_in_pieces_appears_whole(run_dir: Path):
    folders = SentFolders(run_dir, None)
    listing = folders.listing("versions/v_1")
    assert [(entry.name, entry.size_bytes) for entry in listing] == [
        ("config.json", 0),
        ("weights", 10),
    ]
    folders.begin("versions/v_2")
    folders.write("versions/v_2", "config.json", 0, b"")
    for offset in (6, 0, 3):
        piece = folders.read("versions/v_1", "weights", offset, 4)
        folders.write("versions/v_2", "weights", offset, piece)
    assert not (run_dir / "versions/v_2").exists()
    folders.arrived("versions/v_2", listing)
    assert folders.finish("versions/v_2") == listing
    assert listing_of(run_dir / "versions/v_2") == listing


def test_a_folder_that_differs_from_its_original_is_refused(run_dir: Path):
    folders = SentFolders(run_dir, None)
    listing = folders.listing("versions/v_1")
    folders.begin("versions/v_2")
    folders.write("versions/v_2", "config.json", 0, b"")
    with pytest.raises(TransferError, match=r"differs from its original in \['weights'\]"):
        folders.arrived("versions/v_2", listing)
    folders.write("versions/v_2", "weights", 0, b"0123456780")
    with pytest.raises(TransferError, match=r"differs from its original in \['weights'\]"):
        folders.arrived("versions/v_2", listing)
    assert not (run_dir / "versions/v_2").exists()


def test_processes_of_the_run_s_node_and_of_others_make_one_folder_together(run_dir: Path):
    folders, files = SentFolders(run_dir, None), LocalFiles(run_dir)
    sent = folders.listing("versions/v_1")

    def write(partial: Path) -> None:
        (partial / "own").write_bytes(b"here")
        for each in sent:
            content = folders.read("versions/v_1", each.name, 0, each.size_bytes)
            folders.write("checkpoints/step_1", each.name, 0, content)
        folders.arrived("checkpoints/step_1", sent)
        files.contribute("checkpoints/step_1", lambda there: (there / "next").touch())
        assert names(run_dir / "checkpoints") == [partial.name]

    digest, size_bytes = files.assemble("checkpoints/step_1", write)
    folder = run_dir / "checkpoints/step_1"
    assert names(folder) == ["config.json", "next", "own", "weights"]
    assert (digest, size_bytes) == (folder_digest(folder), 14)


@pytest.mark.parametrize("path", ["..", "../other", "/etc", "versions/../.."])
def test_nothing_outside_of_the_run_is_sent(run_dir: Path, path: str):
    with pytest.raises(TransferError, match="is outside the run's folder"):
        SentFolders(run_dir, None).listing(path)


def test_the_initial_model_is_sent_from_where_it_lies(run_dir: Path, tmp_path: Path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "weights").write_bytes(b"1")
    assert SentFolders(run_dir, model).read(MODEL_COPY, "weights", 0, 9) == b"1"
    with pytest.raises(TransferError, match="cannot be sent to other nodes"):
        SentFolders(run_dir, None).listing(MODEL_COPY)


async def test_on_the_run_s_own_node_nothing_is_copied(run_dir: Path):
    files = LocalFiles(run_dir)
    assert await files.fetch("versions/v_1") == run_dir / "versions/v_1"
    assert await files.names("versions") == ["v_1"]
    assert await files.names("nothing") == []
    await files.remove("versions/v_1")
    assert await files.names("versions") == []
