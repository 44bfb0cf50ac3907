"""A run on three Ray nodes that share no files: each has a network and a disk of its own."""

import json
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.chat_server import digest_of
from tests.commands import ROOT
from tests.nodes import ADDRESS, HOME, PRIVATE, Node, forbidden, nodes

REASON = forbidden()

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(REASON), reason=f"nodes: {REASON}"),
]

NEXT_STEP_S = 60.0
"""Within this, a run takes the next step after the loss of a node."""

START_S = 240.0
STEPS = 20
KEY = "sk-of-the-launcher-alone"
CHAT_PORT = 8099

RUN = (
    f"cluster.address={ADDRESS}",
    "placement.rollout=group=worker",
    "placement.learner=group=worker",
    "placement.simulator=group=worker",
    "placement.synthesizer=group=worker",
    "placement.evaluator=launcher",
    f"synthesizer.model={{kind: endpoint, base_url: 'http://127.0.0.1:{CHAT_PORT}/v1', "
    "model: scripted, key_variable: CHAT_KEY}",
    "rollout.actors=2",
    "learner.groups_per_step=4",
    "rollout.group_size=4",
    "environment.held_out=12",
    "rollout.in_flight_groups=8",
    "learner.checkpoint_every=3",
    f"evaluator.every={STEPS}",
    "learner.imitation.replay_per_step=4",
)


class Cluster:
    """Three nodes, the first of which is the head and has the run's folder."""

    def __init__(self, machines: list[Node], logs: Path) -> None:
        self.head, *self.workers = machines
        self._logs = logs
        self.process: Any = None

    def start_ray(self) -> None:
        """Start Ray on every node."""
        self.process = None
        for node in (self.head, *self.workers):
            self._join(node)

    def _join(self, node: Node) -> None:
        log = self._logs / f"{node.address}-{time.monotonic_ns()}"
        node.join(log, *(() if node is self.head else ("--labels", "group=worker")))
        self.until("Ray on a node", lambda: "Ray runtime started" in log.read_text(), 60.0)

    def serve_chat(self) -> None:
        """Serve a scripted model on each worker's loopback; it demands the launcher's key."""
        for worker in self.workers:
            served = ("--port", str(CHAT_PORT), "--key-digest", digest_of(KEY))
            worker.start("python", "-m", "tests.chat_server", *served)

    def launch(self, *words: str) -> None:
        """Start or resume a run from the head."""
        self.output = self._logs / f"run{time.monotonic_ns()}"
        self.process = self.head.start(
            "python",
            "-m",
            "coevolve.launch",
            str(ROOT / "configs/quickstart.yaml"),
            *RUN,
            *words,
            log=self.output,
            also={"CHAT_KEY": KEY},
        )

    def said(self) -> str:
        """Return the run's output so far."""
        return self.output.read_text() if self.process else ""

    def step(self) -> int:
        """Return the newest step of this launch; 0 before its first."""
        lines = [line for line in self.said().splitlines() if '"event": "step"' in line]
        return json.loads(lines[-1])["step"] if lines else 0

    def until(self, what: str, condition: Callable[[], bool], within_s: float) -> float:
        """Wait for a condition; return the seconds it took. Fails with the run's output."""
        started = time.monotonic()
        while not condition():
            ended = self.process is not None and self.process.poll() is not None
            late = time.monotonic() - started > within_s
            assert condition() or not (ended or late), f"waited for {what}:\n{self.said()[-4000:]}"
            time.sleep(0.2)
        return time.monotonic() - started

    def lose(self, worker: Node) -> None:
        """Kill a worker; fail if the run does not go on without it, and with it when it is back."""
        before = self.step()
        worker.kill_ray()
        took_s = self.until("the next step", lambda: self.step() > before + 1, NEXT_STEP_S)
        sys.stdout.write(f"{worker.address} lost: {took_s:.1f} s to the second step after it\n")
        self._join(worker)
        self.until("more steps", lambda: self.step() > before + 4, NEXT_STEP_S)

    def count(self, topic: str) -> int:
        """Return the number of records of a topic."""
        journal = self.attached(self.workers[0], "status")["journal"]
        return journal["topics"].get(topic, 0)

    def check_key_is_secret(self) -> None:
        """Fail if the key stands in a file, an environment or a command line of a worker."""
        places = f"{PRIVATE} /proc/[0-9]*/environ /proc/[0-9]*/cmdline"
        for worker in self.workers:
            assert not _with_word(worker, KEY, places)
            assert _with_word(worker, "raylet", places)
        assert not _with_word(self.head, KEY, str(PRIVATE))

    def attached(self, node: Node, *words: str) -> dict[str, Any]:
        """Return the JSON answer of attach on a node without the run's files."""
        return json.loads(node.run("coevolve", "attach", "--address", ADDRESS, *words, "--json"))


def _with_word(node: Node, word: str, places: str) -> str:
    """Return the files on a node that contain a word; the search does not find itself."""
    return node.run("sh", "-c", f"grep -rlas '{word[:-1]}[{word[-1]}]' {places}; true")


@pytest.fixture
def cluster(tmp_path: Path) -> Generator[Cluster]:
    with nodes(3) as machines:
        yield Cluster(machines, tmp_path)


def test_a_run_on_nodes_that_share_nothing_survives_the_loss_of_each(cluster: Cluster):
    cluster.start_ray()
    cluster.serve_chat()
    cluster.launch(f"learner.steps={10 * STEPS}")
    cluster.until("step 2", lambda: cluster.step() >= 2, START_S)

    status = cluster.attached(cluster.workers[1], "status")
    parts = {part["part"] for part in status["parts"]}
    assert {"store", "learner", "rollout-0", "rollout-1", "simulator-0"} <= parts
    assert "v_0" in cluster.head.run("ls", f"{HOME}/runs/quickstart/versions")
    for worker in cluster.workers:
        assert not worker.run("ls", str(HOME))
    cluster.until("calls of the endpoint", lambda: cluster.count("model_call") > 0, NEXT_STEP_S)
    cluster.check_key_is_secret()

    for worker in cluster.workers:
        cluster.lose(worker)

    last = cluster.step()
    for node in (cluster.head, *cluster.workers):
        node.run("pkill", "-KILL", "-f", "ray")
    lost = time.monotonic()
    assert cluster.process.wait(60) == 1
    sys.stdout.write(f"all nodes lost: {time.monotonic() - lost:.1f} s to the launcher's end\n")
    assert "continue with: coevolve resume quickstart" in cluster.said()

    cluster.start_ray()
    steps = last + STEPS
    cluster.launch(f"learner.steps={steps}", "--resume")
    assert cluster.process.wait(START_S + 60) == 0, cluster.said()[-4000:]
    assert cluster.step() == steps
    for node in cluster.workers:
        assert "coevolve-" not in node.run("sh", "-c", "ls $TMPDIR")
