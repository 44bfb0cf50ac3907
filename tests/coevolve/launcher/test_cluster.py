"""A process has one run at a time."""

from pathlib import Path

import pytest
import ray

from coevolve.launcher.cluster import cluster
from coevolve.runs.directory import create
from protocols.config import RunConfig
from protocols.errors import RunError

pytestmark = pytest.mark.ray


def test_a_second_run_in_one_process_is_refused_and_leaves_the_first_alone(tmp_path: Path):
    first, second = RunConfig(name="first"), RunConfig(name="second")
    with cluster(first, create(tmp_path / "first", first)):
        with (
            pytest.raises(RunError, match="this process carries out another run"),
            cluster(second, create(tmp_path / "second", second)),
        ):
            pass
        assert ray.is_initialized()
    assert not ray.is_initialized()


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
