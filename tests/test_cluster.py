"""A run on three Ray nodes that share no files: each has a network and a disk of its own."""

import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from coevolve.launcher.interrupts import LOST
from tests.clusters import JOB, NEXT_STEP_S, RUNS, START_S, Cluster
from tests.nodes import HOME, forbidden, nodes

REASON = forbidden()

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(REASON), reason=f"nodes: {REASON}"),
]

STEPS = 20


@pytest.fixture
def cluster(tmp_path: Path) -> Generator[Cluster]:
    with nodes(3) as machines:
        yield Cluster(machines, tmp_path)


def test_a_run_on_nodes_that_share_nothing_survives_the_loss_of_each(cluster: Cluster):
    cluster.start_ray()
    cluster.serve_chat()
    # The model is served where the synthesizer runs, which the launcher does not reach.
    cluster.launch(f"learner.steps={10 * STEPS}", "synthesizer.may_be_missing=true")
    cluster.until("step 2", lambda: cluster.step() >= 2, START_S)
    check_what_each_node_has(cluster)
    first, second = cluster.workers
    cluster.lose(first)
    cluster.cut(second)
    cluster.lose(second)
    check_that_the_launcher_ends_with_the_cluster(cluster)

    cluster.start_ray()
    check_a_job_that_continues_the_run(cluster)
    check_a_detached_run(cluster)
    assert cluster.step() >= STEPS


def check_what_each_node_has(cluster: Cluster) -> None:
    (status,) = cluster.attach(cluster.workers[1], "status")
    parts = {part["part"] for part in status["parts"]}
    assert {"store", "learner", "rollout-0", "rollout-1", "simulator-0"} <= parts
    assert cluster.head.seen(RUNS / "quickstart/versions/v_0").is_dir()
    for worker in cluster.workers:
        assert not worker.run("ls", str(HOME))
    cluster.until("calls of the endpoint", lambda: cluster.count("model_call") > 0, NEXT_STEP_S)
    cluster.check_key_is_secret()


def check_that_the_launcher_ends_with_the_cluster(cluster: Cluster) -> None:
    cluster.kill_all()
    lost = time.monotonic()
    assert cluster.launcher is not None
    assert cluster.launcher.wait(60) == LOST
    sys.stdout.write(f"all nodes lost: {time.monotonic() - lost:.1f} s to the launcher's end\n")
    assert "continue with: coevolve resume quickstart" in cluster.said()
    cluster.launcher = None


def check_a_job_that_continues_the_run(cluster: Cluster) -> None:
    """The job is submitted from a node without the run's files, and attached to from another."""
    first, second = cluster.workers
    cluster.submit(first, f"learner.steps={10 * STEPS}")
    cluster.further_steps(2, START_S)
    assert cluster.attach(second, "status")[0]["running"]
    assert cluster.attach(second, "pause")[0]["paused"]
    assert not cluster.attach(second, "resume")[0]["paused"]
    copy = HOME / "copy"
    cluster.attach(second, "checkpoint", "--to", str(copy))
    assert cluster.head.seen(copy).is_dir()
    cluster.job(first, "stop", JOB)
    assert f"Job '{JOB}' was stopped" in cluster.job(second, "status", JOB)
    cluster.check_clean_stop()


def check_a_detached_run(cluster: Cluster) -> None:
    first, second = cluster.workers
    assert "look into it: coevolve attach" in cluster.detach()
    cluster.further_steps(2, START_S)
    cluster.attach(second, "signals")
    cluster.check_nothing_was_done_twice(second)
    assert cluster.attach(first, "stop") == [{"run": "quickstart", "stopped": False}]
    log = cluster.head.seen(RUNS / "quickstart/launch.log")
    cluster.until("the end", lambda: "stopped; continue with" in log.read_text(), NEXT_STEP_S)
    cluster.check_clean_stop()
