"""What other nodes get of the working folder, and what a start says of the rest."""

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from coevolve.launcher.working_folder import ALL_FILES, refuse_left_out, warning
from protocols.config import ClusterConfig, RunConfig
from protocols.errors import ConfigError

JOINED = ClusterConfig(address="10.0.0.1:6379")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a class of one's own, its tasks and its data."""
    for name in ("shelves.py", "tasks.jsonl", "data/world.json", "data/deep/more.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "runs" / "old").mkdir(parents=True)
    (tmp_path / "runs" / "old" / "run.json").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "shelves", raising=False)
    monkeypatch.delenv(ALL_FILES, raising=False)
    return tmp_path


def config(tasks: str = "tasks.jsonl") -> RunConfig:
    own = {"use": "shelves:Shelves", "tasks": tasks}
    return RunConfig(name="own", environment=own, cluster=JOINED)


def test_a_folder_without_ignored_files_is_copied_whole(folder: Path):
    assert (folder / "shelves.py").exists()
    refuse_left_out(config())
    assert warning(config()) == ""


@pytest.mark.parametrize(
    ("where", "pattern", "tasks", "setting", "named"),
    [
        (".gitignore", "*.jsonl", "tasks.jsonl", "environment.tasks", "tasks.jsonl"),
        (".gitignore", "data/", "data/world.json", "environment.tasks", "data/world.json"),
        ("data/.gitignore", "deep", "data/deep/more.json", "environment.tasks", "more.json"),
        (".rayignore", "shelves.py", "tasks.jsonl", "environment.use", "shelves.py"),
        (".rayignore", "/*.py", "tasks.jsonl", "environment.use", "shelves.py"),
        (".other", "", "runs/old/run.json", "environment.tasks", "run.json"),
    ],
)
def test_a_class_or_tasks_that_other_nodes_would_not_get_are_refused(
    folder: Path, where: str, pattern: str, tasks: str, setting: str, named: str
):
    (folder / where).write_text(f"{pattern}\n")
    with pytest.raises(ConfigError, match=f"^{setting}: other nodes get .*{named}"):
        refuse_left_out(config(tasks))


def test_data_that_other_nodes_do_not_get_are_named(folder: Path):
    (folder / ".gitignore").write_text("data/\nruns/\n")
    refuse_left_out(config())
    said = warning(config())
    assert said.startswith("other nodes do not get 2 files of the working folder")
    assert "data/deep/more.json, data/world.json;" in said


def test_a_variable_of_ray_copies_what_gitignore_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    (folder / ".gitignore").write_text("*.jsonl\ndata/\n")
    monkeypatch.setenv(ALL_FILES, "1")
    refuse_left_out(config())
    assert warning(config()) == ""


def test_a_run_on_one_machine_copies_nothing(folder: Path):
    (folder / ".gitignore").write_text("*\n")
    alone = replace(config(), cluster=ClusterConfig())
    refuse_left_out(alone)
    assert warning(alone) == ""
    built_in = replace(config(), environment={"use": "filesystem"})
    refuse_left_out(built_in)
    assert warning(built_in) == ""
