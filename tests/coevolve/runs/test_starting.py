"""Links in a run's folder: nothing is written through one, and no lock is asked through one."""

import fcntl
import shutil
from pathlib import Path

import pytest

from coevolve.history.directory import RunDirectory
from coevolve.runs.starting import LOCK_FILE, create, is_launched, launch_lock, reopen
from protocols.config import RunConfig
from protocols.errors import RunError

LINKS = (
    *("config.yaml.new", "run.json.new", LOCK_FILE, "launch.log", "metrics.jsonl", "report.html"),
    *("logs", "logs/learner.jsonl", "logs/ray", "trackers", "trackers/own.log", "versions"),
    *("checkpoints", "model", "store", "store/writer.lock", "store/lock.mdb", "store/new"),
)


@pytest.fixture
def run(tmp_path: Path, quickstart: RunConfig) -> RunDirectory:
    return create(tmp_path / "run", quickstart)


@pytest.mark.parametrize("name", LINKS)
def test_a_run_is_not_continued_with_a_link_out_of_its_folder(
    run: RunDirectory, quickstart: RunConfig, tmp_path: Path, name: str
):
    link = run.path / name
    link.parent.mkdir(exist_ok=True)
    for target in (
        tmp_path / "absent",
        tmp_path / "mine",
        tmp_path / "folder",
        Path("../../absent"),
    ):
        (tmp_path / "mine").write_text("mine")
        (tmp_path / "folder").mkdir(exist_ok=True)
        link.symlink_to(target)
        outside = sorted(tmp_path.iterdir())
        with pytest.raises(RunError, match=rf"{name}: needs to be no link.* found a link to"):
            reopen(run.path, quickstart)
        assert (tmp_path / "mine").read_text() == "mine"
        assert sorted(tmp_path.iterdir()) == outside
        assert not list((tmp_path / "folder").iterdir())
        link.unlink()
    assert reopen(run.path, quickstart) == run


def test_a_run_behind_links_is_continued_and_so_is_one_with_links_inside(
    run: RunDirectory, quickstart: RunConfig, tmp_path: Path
):
    (run.path / "trackers" / "wandb" / "run-1").mkdir(parents=True)
    (run.path / "trackers" / "wandb" / "latest").symlink_to("run-1")
    (run.path / "trackers" / "wandb" / "gone").symlink_to(run.path / "trackers" / "absent")
    assert reopen(run.path, quickstart) == run
    (run.path / "trackers" / "wandb" / "gone").unlink()
    (tmp_path / "scratch").mkdir()
    shutil.move(run.path, tmp_path / "scratch" / "run")
    (tmp_path / "runs").symlink_to("scratch")
    (tmp_path / "mine").symlink_to("runs/run")
    for path in (tmp_path / "runs" / "run", tmp_path / "mine"):
        directory = reopen(path, quickstart)
        with launch_lock(directory):
            assert is_launched(directory)
            assert is_launched(RunDirectory(tmp_path / "scratch" / "run"))
        assert not is_launched(directory)


@pytest.mark.parametrize("target", ["mine", "absent", "run/run.json"])
def test_the_lock_of_a_run_is_no_link(run: RunDirectory, tmp_path: Path, target: str):
    (tmp_path / "mine").write_text("mine")
    before = (run.path / "run.json").read_bytes()
    (run.path / LOCK_FILE).symlink_to(tmp_path / target)
    with (
        pytest.raises(RunError, match=rf"{LOCK_FILE}: needs to be no link"),
        launch_lock(run),
    ):
        pass
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (tmp_path / "absent").exists()
    assert (run.path / "run.json").read_bytes() == before


def test_a_lock_that_is_a_link_to_a_locked_file_launches_nothing(run: RunDirectory, tmp_path: Path):
    (tmp_path / "mine").write_text("1")
    (run.path / LOCK_FILE).symlink_to(tmp_path / "mine")
    with (tmp_path / "mine").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert not is_launched(run)
