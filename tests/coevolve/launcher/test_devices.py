import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import ray
import torch

from coevolve.config.load import load_config
from coevolve.launcher.devices import lacking, missing_devices
from coevolve.launcher.fitting import demands
from coevolve.launcher.nodes import Node, cluster_nodes
from coevolve.models.tiny_random.resolve import running
from protocols.config import RunConfig
from protocols.errors import ConfigError, DependencyError
from tests.commands import ROOT, answered

NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without GPUs")
CONFIGS = ROOT / "configs"


def config(name: str, *overrides: str) -> RunConfig:
    return load_config(CONFIGS / f"{name}.yaml", overrides)


def test_a_run_on_the_cpu_needs_no_device():
    assert not missing_devices(config("quickstart"))
    assert not missing_devices(config("quickstart_vllm"))
    tiny = config("bfcl_qwen3_4b", "policy.tiny_random=true")
    assert not missing_devices(running(tiny, Path("none")))


def test_more_processes_than_the_cpus_can_carry_are_refused():
    many = ("rollout.actors=100", "learner.devices=100", "simulator.workers=1000")
    crowded = demands(config("quickstart", *many))
    node = Node(node_id="", resources={"CPU": 2.0}, labels={}, is_launchers=True)
    said = lacking(crowded, [node], "")
    assert [each.partition(":")[0] for each in said] == [
        "learner.devices",
        "rollout.actors",
        "simulator.workers",
    ]
    assert said[0] == (
        "learner.devices: 100 processes that compute on CPUs are more than 2 for each of the 2 "
        "CPUs that the nodes have; ask for at most 4"
    )
    assert not lacking(demands(config("quickstart", "learner.devices=4")), [node], "")


@NO_GPU
def test_gpus_that_the_machine_lacks_are_counted_by_who_asks_for_them():
    many = ("learner.devices=2", "rollout.actors=3")
    (said,) = missing_devices(config("bfcl_qwen3_4b", *many))
    assert said.startswith(
        "the run needs 5 GPUs (learner 2 x 1, rollout 3 x 1), and torch finds 0 "
    )
    (said,) = missing_devices(config("bfcl_qwen3_4b", *many, "evaluator.engine=own"))
    assert said.startswith(
        "the run needs 6 GPUs (learner 2 x 1, rollout 3 x 1, evaluator 1), and torch finds 0 on "
        "this machine"
    )
    assert "policy.device=cpu" in said


@NO_GPU
def test_a_learner_on_a_gpu_that_is_not_there_is_refused_and_nothing_is_written(tmp_path: Path):
    answer = answered(
        "launch",
        str(CONFIGS / "quickstart.yaml"),
        "policy.device=cuda",
        "--runs",
        str(tmp_path / "runs"),
    )
    assert answer.returncode == 1
    assert "the run needs 1 GPU (learner 1), and torch finds 0" in answer.stderr
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def address() -> Generator[str]:
    """A cluster with one CPU and, as it says, two GPUs."""
    context: Any = ray.init(
        address="local",
        num_cpus=1,
        num_gpus=2,
        labels={"group": "gpu"},
        include_dashboard=False,
        log_to_driver=False,
    )
    yield context.address_info["gcs_address"]
    ray.shutdown()


@pytest.mark.ray
def test_a_cluster_is_asked_for_its_gpus_labels_and_cpus(address: str, tmp_path: Path):
    # In a process of its own: this one holds the cluster.
    from tests.commands import called

    words = (str(CONFIGS / "quickstart.yaml"), f"cluster.address={address}", "policy.device=cuda")
    here = ("--runs", str(tmp_path / "runs"))
    refused = called("launch", *words, "learner.devices=3", *here)
    assert refused.returncode == 1
    assert f"needs 3 GPUs (learner 3 x 1), and the cluster at '{address}' has 2" in refused.stderr
    assert not (tmp_path / "runs").exists()
    placed = ("learner.devices=2", "placement.learner=group=gpu", "placement.cpus={learner: 0.5}")
    fits = called("launch", *words, *placed, "--dry-run", *here)
    assert fits.returncode == 0, fits.stderr
    assert "# missing" not in fits.stdout
    misplaced = ("placement.rollout=group=cpu", "placement.cpus={evaluator: 2}")
    lacks = called("launch", *words, *misplaced, "--dry-run", *here)
    missing = [line for line in lacks.stdout.splitlines() if line.startswith("# missing: ")]
    assert len(missing) == 2
    assert "needs a node with the label group=cpu" in missing[0]
    assert "(its nodes have group=gpu)" in missing[0]
    assert f"`ray start --address={address} --labels group=cpu`" in missing[0]
    assert "reserves 2 CPUs (evaluator 2)" in missing[1]


def test_a_cluster_that_ray_cannot_reach_is_one_sentence():
    with pytest.raises(DependencyError, match="Ray cannot reach the cluster at 'nowhere'"):
        cluster_nodes("nowhere")


def test_an_address_of_something_else_than_ray_is_refused():
    (said,) = missing_devices(config("quickstart", "cluster.address=foo"))
    assert "needs HOST:PORT of the head of a Ray cluster, found 'foo'" in said
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        (said,) = missing_devices(config("quickstart", f"cluster.address={address}"))
        server.shutdown()
    assert f"what listens at '{address}' is none; give the address that `ray start" in said


def test_a_named_cluster_is_joined_although_nothing_is_reserved(monkeypatch: pytest.MonkeyPatch):
    def joined(address: str) -> list[Node]:
        raise DependencyError(f"{address}: another token")

    monkeypatch.setattr("coevolve.launcher.devices.cluster_nodes", joined)
    for check in ("listens", "speaks_grpc"):
        monkeypatch.setattr(f"coevolve.launcher.devices.{check}", lambda address: True)
    said = missing_devices(config("quickstart", "cluster.address=10.0.0.1:6379"))
    assert said == ["10.0.0.1:6379: another token"]


def test_more_cpus_than_the_machine_has_are_refused_without_a_cluster():
    (said,) = missing_devices(config("quickstart", "placement.cpus={learner: 1000}"))
    assert "reserves 1000 CPUs (learner 1000), and this machine has" in said
    assert "lower placement.cpus" in said


def test_a_ray_client_address_is_refused_when_the_file_is_read():
    with pytest.raises(ConfigError, match=r"cluster.address: .* needs HOST:PORT .*Ray client"):
        config("quickstart", "cluster.address=ray://127.0.0.1:10001")
