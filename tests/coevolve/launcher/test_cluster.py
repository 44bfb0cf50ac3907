"""A process has one run at a time."""

import os
import tempfile
from pathlib import Path

import pytest
import ray

from coevolve.launcher.cluster import cluster
from coevolve.runs.directory import create
from protocols.config import RunConfig
from protocols.errors import RunError

pytestmark = pytest.mark.ray


def sessions() -> set[Path]:
    """Return the session folders of all local Ray clusters, also of ended ones."""
    return {path for path in ray_folder().glob("session_*_*") if not path.is_symlink()}


def ray_folder() -> Path:
    return Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()) / "ray"


def test_a_second_run_in_one_process_is_refused_and_leaves_the_first_alone(tmp_path: Path):
    first, second = RunConfig(name="first"), RunConfig(name="second")
    before = sessions()
    with cluster(first, create(tmp_path / "first", first)):
        (own,) = (path for path in sessions() - before if path.name.endswith(f"_{os.getpid()}"))
        with (
            pytest.raises(RunError, match="this process carries out another run"),
            cluster(second, create(tmp_path / "second", second)),
        ):
            pass
        assert ray.is_initialized()
    assert not ray.is_initialized()
    assert not own.exists()


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
