"""A process has one run at a time, and its cluster is closed to others."""

import os
import sys
from pathlib import Path

import psutil
import pytest
import ray

from coevolve.base.import_guard import CODE
from coevolve.launcher.cluster import cluster
from coevolve.runs.starting import create
from protocols.config import RunConfig
from protocols.errors import RunError
from tests import exposure

pytestmark = pytest.mark.ray

SECRET = {"PLANTED_API_KEY": "planted-5e3d71"}


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder for temporary files, which no other test uses."""
    folder = Path(f"/tmp/{os.getpid()}")  # a short path, because of sockets
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("RAY_TMPDIR", str(folder))
    return folder


def test_a_cluster_is_closed_to_others_and_a_second_run_leaves_it_alone(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name, value in SECRET.items():
        monkeypatch.setenv(name, value)
    first, second = RunConfig(name="first"), RunConfig(name="second")
    with cluster(first, create(tmp_path / "first", first)) as joined:
        assert joined.withheld.items() >= SECRET.items()
        (own,) = base.iterdir()
        assert exposure.open_to_others([own]) == []
        processes = psutil.Process().children(recursive=True)
        assert sum(len(exposure.listening(each)) for each in processes) >= 3
        assert exposure.reachable_sockets([psutil.Process(), *processes]) == []
        assert exposure.secrets_of_processes(processes, SECRET) == []
        with (
            pytest.raises(RunError, match="this process carries out another run"),
            cluster(second, create(tmp_path / "second", second)),
        ):
            pass
        assert ray.is_initialized()
    assert not ray.is_initialized()
    base.rmdir()
    assert dict(os.environ).items() >= SECRET.items()


def test_workers_import_from_the_folder_that_the_user_names_and_not_from_the_working_folder(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    code, here = tmp_path / "code", tmp_path / "here"
    code.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    config = RunConfig(name="run")
    for named in (str(code), ""):
        monkeypatch.setenv(CODE, named)
        with cluster(config, create(tmp_path / ("with" if named else "without"), config)):
            searched: list[str] = ray.get(ray.remote(lambda: sys.path).remote())
            assert str(here) not in searched
            assert (str(code) in searched) == bool(named)


def test_a_process_that_uses_ray_for_itself_is_refused_a_run(tmp_path: Path):
    config = RunConfig(name="run")
    ray.init(address="local", num_cpus=1, include_dashboard=False)
    try:
        with (
            pytest.raises(RunError, match="this process uses Ray already"),
            cluster(config, create(tmp_path / "run", config)),
        ):
            pass
        assert ray.is_initialized()
    finally:
        ray.shutdown()
