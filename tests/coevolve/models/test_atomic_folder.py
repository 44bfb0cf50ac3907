import random
import shutil
import sys
from pathlib import Path

import pytest

from coevolve.learning.recovery import newest_valid
from coevolve.models import atomic_folder as checkpoint
from coevolve.parts.files import LocalFiles
from protocols.errors import CheckpointError, DependencyError
from protocols.learning import Checkpoint
from tests.powercuts.images import Disk
from tests.powercuts.trace import Recording, Trace, compiled, traced


def write_two(folder: Path) -> None:
    (folder / "weights").write_bytes(b"1")
    (folder / "inner").mkdir()
    (folder / "inner" / "state").write_bytes(b"22")


def registered(run_dir: Path, step: int) -> Checkpoint:
    path = f"checkpoints/step_{step}"
    folder = run_dir / path
    checkpoint.write_folder(folder, write_two)
    return Checkpoint(
        step=step,
        path=path,
        digest=checkpoint.folder_digest(folder),
        size_bytes=checkpoint.folder_size(folder),
    )


def test_a_folder_appears_with_all_of_its_files(tmp_path: Path):
    checkpoint.write_folder(tmp_path / "checkpoints" / "step_1", write_two)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step_1"]
    assert checkpoint.folder_size(tmp_path / "checkpoints") == 3


def test_a_writer_that_dies_leaves_no_folder_under_the_name(tmp_path: Path):
    folder = tmp_path / "step_1"

    def die(partial: Path) -> None:
        write_two(partial)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checkpoint.write_folder(folder, die)
    assert not list(tmp_path.iterdir())
    checkpoint.write_folder(folder, write_two)
    assert [path.name for path in tmp_path.iterdir()] == ["step_1"]


@pytest.mark.parametrize("error", [DependencyError("no network"), ValueError(), SystemExit(1)])
def test_a_writer_that_fails_leaves_nothing(tmp_path: Path, error: BaseException):
    def fail(partial: Path) -> None:
        write_two(partial)
        raise error

    with pytest.raises(type(error)):
        checkpoint.write_folder(tmp_path / "step_1", fail)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_reported_with_a_remedy_and_leaves_the_old_folder(tmp_path: Path):
    folder = tmp_path / "step_1"
    checkpoint.write_folder(folder, write_two)
    before = checkpoint.folder_digest(folder)

    def full(partial: Path) -> None:
        write_two(partial)
        raise OSError(28, "No space left on device")

    with pytest.raises(CheckpointError, match=r"step_1: cannot be written: .*No space.* free disk"):
        checkpoint.write_folder(folder, full)
    assert checkpoint.folder_digest(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == ["step_1"]


def test_a_folder_that_no_record_names_is_replaced(tmp_path: Path):
    folder = tmp_path / "v_3"
    checkpoint.write_folder(folder, lambda partial: (partial / "old").touch())
    checkpoint.write_folder(folder, write_two)
    assert sorted(path.name for path in folder.iterdir()) == ["inner", "weights"]


def test_the_digest_sees_contents_names_and_places(tmp_path: Path):
    digests: set[str] = set()
    for name, files in enumerate(
        ({"a": b"1", "b": b"2"}, {"a": b"2", "b": b"1"}, {"a": b"1", "c": b"2"}, {"a": b"12"})
    ):
        folder = tmp_path / str(name)
        folder.mkdir()
        for file, content in files.items():
            (folder / file).write_bytes(content)
        digests.add(checkpoint.folder_digest(folder))
    assert len(digests) == 4


async def test_the_newest_whole_checkpoint_is_chosen(tmp_path: Path):
    found = [registered(tmp_path, step) for step in (10, 20, 30)]
    assert await newest_valid(LocalFiles(tmp_path), found) == found[2]
    (tmp_path / "checkpoints/step_30/weights").write_bytes(b"9")
    assert await newest_valid(LocalFiles(tmp_path), found) == found[1]
    (tmp_path / "checkpoints/step_20/inner/state").unlink()
    assert await newest_valid(LocalFiles(tmp_path), found) == found[0]
    assert await newest_valid(LocalFiles(tmp_path), found[1:]) is None


def test_a_checkpoint_error_names_the_fault(tmp_path: Path):
    one = registered(tmp_path, 10)
    (tmp_path / "checkpoints/step_10/weights").write_bytes(b"9")
    with pytest.raises(CheckpointError, match=r"step 10 is incomplete or was changed: its digest"):
        checkpoint.verify(tmp_path, one)
    (tmp_path / "checkpoints/step_10").rename(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match=r"step 10 is missing; restore the folder"):
        checkpoint.verify(tmp_path, one)


@pytest.mark.parametrize("instead", ["file", "link", "link to a folder"])
def test_what_stands_in_the_place_of_a_folder_is_replaced(tmp_path: Path, instead: str):
    folder, other = tmp_path / "step_1", tmp_path / "other"
    other.mkdir()
    match instead:
        case "file":
            folder.write_text("x")
        case "link":
            folder.symlink_to(tmp_path / "nowhere")
        case _:
            folder.symlink_to(other)
    checkpoint.write_folder(folder, write_two)
    assert not folder.is_symlink()
    assert checkpoint.folder_size(folder) == 3
    assert other.is_dir()


WRITER = """
import sys
from pathlib import Path
from coevolve.models.atomic_folder import write_folder
write_folder(Path(sys.argv[1]), lambda partial: (partial / "weights").write_bytes(b"1"))
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("replaces", [False, True])
def test_a_folder_that_was_written_survives_a_power_cut(tmp_path: Path, replaces: bool):
    root = tmp_path / "root"
    root.mkdir()
    recording, library = Recording(root, tmp_path / "trace"), compiled(tmp_path)
    command = [sys.executable, "-c", WRITER, str(root / "versions" / "v_1")]
    traces: list[Trace] = []
    for _ in range(1 + replaces):
        with traced(library, command, root=root, file=tmp_path / "trace") as process:
            assert process.wait(60) == 0
        traces.append(recording.trace())
    disk = Disk(traces[-1])
    disk.advance(len(traces[-1].events))
    for seed in range(20):
        image = tmp_path / f"cut-{seed}"
        image.mkdir()
        disk.write(image, random.Random(seed))
        assert (image / "versions" / "v_1" / "weights").read_bytes() == b"1"
