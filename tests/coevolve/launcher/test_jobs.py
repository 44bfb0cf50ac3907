"""What Ray's job server, and ``RAY_ADDRESS``, change for a run."""

import json
from pathlib import Path

import pytest

from coevolve.launcher import jobs
from coevolve.launcher.address import with_address
from coevolve.launcher.cluster import runtime_environment
from protocols.config import ClusterConfig, RunConfig
from protocols.errors import ConfigError
from tests.commands import answered

CLASS = RunConfig(name="run", environment={"use": "keyvalue:KeyValue"})


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make this process look like the command of a job; return its home folder."""
    environment = {"working_dir": "gcs://a.zip", "env_vars": {"OMP_NUM_THREADS": "4"}}
    monkeypatch.setenv(jobs.JOB, json.dumps({"runtime_env": environment, "metadata": {}}))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(jobs.STOP_WAIT, raising=False)
    return tmp_path


def test_the_runs_of_a_job_are_not_in_its_temporary_working_folder(job: Path):
    assert jobs.lasting(Path("runs")) == job / "runs"
    assert jobs.lasting(Path("/data/runs")) == Path("/data/runs")
    answer = answered("resume", "nothing")
    assert f"nor the name of one under {job / 'runs'}" in answer.stderr


def test_outside_of_a_job_the_runs_are_where_the_user_is():
    assert not jobs.in_job()
    assert jobs.lasting(Path("runs")) == Path("runs")


def test_a_job_is_not_detached(job: Path):
    for words in (("launch", "quickstart"), ("resume", "quickstart")):
        answer = answered(*words, "--detach")
        assert answer.returncode == 2
        assert "a Ray job runs without a terminal already; leave --detach out" in answer.stderr


def test_a_run_in_a_job_says_only_what_the_job_does_not(job: Path):
    assert runtime_environment(CLASS, {"A": "1"}) == {
        "env_vars": {"TOKENIZERS_PARALLELISM": "false", "A": "1"}
    }


def test_a_run_outside_of_a_job_brings_its_working_folder():
    found = runtime_environment(CLASS, {"A": "1"})
    assert found["working_dir"] == str(Path.cwd())
    assert found["env_vars"] == {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"} | {
        "A": "1"
    }


def test_a_job_warns_if_ray_would_kill_it_before_its_checkpoint(
    job: Path, monkeypatch: pytest.MonkeyPatch
):
    assert "kills this run after 3 s" in jobs.kill_warning(8.0)
    assert '"RAY_JOB_STOP_WAIT_TIME_S": "16"' in jobs.kill_warning(8.0)
    monkeypatch.setenv(jobs.STOP_WAIT, "60")
    assert not jobs.kill_warning(8.0)
    assert jobs.kill_warning(60.0)


def test_no_other_run_warns_of_it():
    assert not jobs.kill_warning(8.0)


@pytest.mark.parametrize(
    ("setting", "variable", "joined"),
    [
        ("", "", ""),
        ("", "head:6379", "head:6379"),
        ("other:6379", "head:6379", "other:6379"),
        ("local", "head:6379", ""),
        ("local", "http://head:8265", ""),
    ],
)
def test_a_run_joins_the_cluster_of_its_setting_or_else_of_the_environment(
    setting: str, variable: str, joined: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RAY_ADDRESS", variable)
    config = RunConfig(name="run", cluster=ClusterConfig(address=setting))
    assert with_address(config).cluster.address == joined


def test_the_address_of_a_job_server_is_no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("RAY_ADDRESS", "http://head:8265")
    with pytest.raises(ConfigError, match="RAY_ADDRESS: needs HOST:PORT of the head"):
        with_address(RunConfig(name="run"))
    answer = answered("launch", "quickstart", "--runs", str(tmp_path))
    assert answer.returncode == 1
    assert "found 'http://head:8265'" in answer.stderr
    assert not list(tmp_path.iterdir())


def test_a_dry_run_says_which_cluster_the_environment_names(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    said = answered("launch", "quickstart", "--dry-run").stdout
    assert "# cluster: joins the one at 127.0.0.1:1, which RAY_ADDRESS names\n" in said
    assert "# missing: cluster.address: needs a running Ray cluster" in said
    own = answered("launch", "quickstart", "cluster.address=local", "--dry-run").stdout
    assert "127.0.0.1:1" not in own
