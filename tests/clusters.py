"""A run on three Ray nodes that share no files, and the ways to start and to disturb it."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from coevolve.config.load import load_config
from tests.chat_server import digest_of
from tests.commands import ROOT
from tests.nodes import ADDRESS, HOME, JOB_SERVER, PRIVATE, Node

NEXT_STEP_S = 60.0
"""Within this, a run takes the next step after the loss of a node."""

START_S = 240.0
KEY = "sk-of-the-launcher-alone"
CHAT_PORT = 8099
RUNS = HOME / "runs"

SETTINGS = (
    "placement.rollout=group=worker",
    "placement.learner=group=worker",
    "placement.simulator=group=worker",
    "placement.synthesizer=group=worker",
    "placement.evaluator=launcher",
    f"synthesizer.model={{kind: endpoint, base_url: 'http://127.0.0.1:{CHAT_PORT}/v1', "
    "model: scripted, key_variable: CHAT_KEY}",
    "evolve_every=0",
    "rollout.actors=2",
    "learner.groups_per_step=4",
    "rollout.group_size=4",
    "environment.held_out=12",
    "rollout.in_flight_groups=8",
    "learner.checkpoint_every=3",
    "evaluator.every=1000",
    "learner.imitation.replay_per_step=4",
    "cluster.stop_s=60",
)

JOB = "continued"
JOB_VARIABLES = {"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "90"}}

HEALTH_CHECKS = {"RAY_health_check_period_ms": "1000", "RAY_health_check_timeout_ms": "2000"}
"""Settings of a head that gives up a node without an answer after `GIVEN_UP_S`."""

GIVEN_UP_S = 15.0


class Cluster:
    """Three nodes, the first of which is the head and has the run's folder."""

    def __init__(self, machines: list[Node], logs: Path) -> None:
        self.head, *self.workers = machines
        self.launcher: subprocess.Popen[str] | None = None
        """The launcher of a run that is neither a job nor detached."""

        self._logs = logs
        self._output: Path | None = None

    def start_ray(self) -> None:
        """Start Ray on every node."""
        self.launcher = None
        for node in (self.head, *self.workers):
            self._join(node)

    def _join(self, node: Node) -> None:
        log = self._logs / f"{node.address}-{time.monotonic_ns()}"
        if node is self.head:
            node.join(log, also={"CHAT_KEY": KEY, **HEALTH_CHECKS})
        else:
            node.join(log, "--labels", "group=worker")
        self.until("Ray on a node", lambda: "Ray runtime started" in log.read_text(), 60.0)

    def serve_chat(self) -> None:
        """Serve a scripted model on each worker's loopback; it demands the launcher's key."""
        for worker in self.workers:
            served = ("--port", str(CHAT_PORT), "--key-digest", digest_of(KEY))
            worker.start("python", "-m", "tests.chat_server", *served)

    def launch(self, *settings: str) -> None:
        """Start the run from a shell of the head."""
        self._output = self._logs / f"run{time.monotonic_ns()}"
        self.launcher = self.head.start(
            "python",
            "-m",
            "coevolve.launch",
            str(ROOT / "configs/quickstart.yaml"),
            f"cluster.address={ADDRESS}",
            *SETTINGS,
            *settings,
            log=self._output,
            also={"CHAT_KEY": KEY},
        )

    def submit(self, worker: Node, *settings: str) -> None:
        """Continue the run as a Ray job, which a worker submits with a run file of its own."""
        config = load_config("quickstart", (*SETTINGS, *settings))
        folder = HOME / "work"
        worker.run("mkdir", str(folder))
        worker.seen(folder / "run.yaml").write_bytes(msgspec.yaml.encode(config))
        submitted = ("--submission-id", JOB, "--no-wait", "--working-dir", str(folder))
        command = ("coevolve", "launch", "run.yaml", "--resume")
        variables = ("--runtime-env-json", json.dumps(JOB_VARIABLES))
        self.until("Ray's job server", self._serves_jobs, 60.0)
        self.job(worker, "submit", *submitted, *variables, "--", *command)

    def _serves_jobs(self) -> bool:
        """Return whether the head takes jobs; it begins to after Ray says that it has started."""
        with contextlib.suppress(AssertionError):
            self.job(self.head, "list")
            return True
        return False

    def job(self, node: Node, command: str, *words: str) -> str:
        """Carry out a command of ``ray job`` on a node and return what it prints."""
        ray = ("env", "RAY_AUTH_MODE=token", "ray", "job", command, "--address", JOB_SERVER)
        return node.run(*ray, *words)

    def detach(self, *settings: str) -> str:
        """Continue the run without a terminal, and return what the command prints."""
        words = ("quickstart", f"cluster.address={ADDRESS}", *settings, "--runs", str(RUNS))
        command = ("coevolve", "resume", *words, "--detach")
        return self.head.run("env", f"CHAT_KEY={KEY}", *command)

    def said(self) -> str:
        """Return the output of the launcher so far."""
        return self._output.read_text() if self._output else ""

    def step(self) -> int:
        """Return the newest step of the run; 0 before its first."""
        file = self.head.seen(RUNS / "quickstart/metrics.jsonl")
        text = file.read_text() if file.exists() else ""
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]
        return max((line["step"] for line in lines), default=0)

    def until(self, what: str, condition: Callable[[], bool], within_s: float) -> float:
        """Wait for a condition; return the seconds it took. Fails with the run's output."""
        started = time.monotonic()
        while not condition():
            ended = self.launcher is not None and self.launcher.poll() is not None
            late = time.monotonic() - started > within_s
            assert condition() or not (ended or late), f"waited for {what}:\n{self.said()[-4000:]}"
            time.sleep(0.2)
        return time.monotonic() - started

    def further_steps(self, count: int, within_s: float) -> float:
        """Wait until the run has taken further steps; return the seconds it took."""
        goal = self.step() + count
        return self.until(f"step {goal}", lambda: self.step() >= goal, within_s)

    def lose(self, worker: Node) -> None:
        """Kill a worker; fail if the run does not go on without it, and with it when it is back."""
        worker.kill_ray()
        took_s = self.further_steps(2, NEXT_STEP_S)
        sys.stdout.write(f"{worker.address} lost: {took_s:.1f} s to the second step after it\n")
        self._join(worker)
        self.further_steps(2, NEXT_STEP_S)

    def cut(self, worker: Node) -> None:
        """Cut a worker's network; fail if the run does not go on, also when the worker is back.

        When a node is back that Ray has given up, Ray ends on it with all that still works there.
        """
        worker.link("down")
        took_s = self.further_steps(2, GIVEN_UP_S + NEXT_STEP_S)
        sys.stdout.write(f"{worker.address} cut: {took_s:.1f} s to the second step after it\n")
        worker.link("up")
        ray = worker.ray
        assert ray is not None
        took_s = self.until("Ray to end", lambda: ray.poll() is not None, NEXT_STEP_S)
        sys.stdout.write(f"{worker.address} mended: Ray ended there after {took_s:.1f} s\n")
        self._join(worker)
        self.further_steps(2, NEXT_STEP_S)

    def kill_all(self) -> None:
        """Kill Ray on every node."""
        for node in (self.head, *self.workers):
            node.run("pkill", "-KILL", "-f", "ray")

    def attach(self, node: Node, *words: str) -> list[dict[str, Any]]:
        """Return the JSON lines of attach on a node without the run's files."""
        said = node.run("coevolve", "attach", "--address", ADDRESS, *words, "--json")
        return [json.loads(line) for line in said.splitlines()]

    def count(self, topic: str) -> int:
        """Return the number of records of a topic."""
        (status,) = self.attach(self.workers[0], "status")
        return status["journal"]["topics"].get(topic, 0)

    def check_key_is_secret(self) -> None:
        """Fail if the key stands in a file, an environment or a command line of a worker."""
        places = f"{PRIVATE} /proc/[0-9]*/environ /proc/[0-9]*/cmdline"
        for worker in self.workers:
            assert not _with_word(worker, KEY, places)
            assert _with_word(worker, "raylet", places)
        assert not _with_word(self.head, KEY, str(PRIVATE))

    def check_nothing_was_done_twice(self, node: Node) -> None:
        """Fail if a step or a rollout is missing or doubled in the journal."""
        steps = [each["step"] for each in self.attach(node, "tail", "step_report", "-n", "100000")]
        assert steps == list(range(1, len(steps) + 1))
        rollouts = self.attach(node, "tail", "rollout", "-n", "100000")
        known = {(each["group_id"], each["index"]) for each in rollouts}
        assert len(known) == len(rollouts) > len(steps)

    def check_clean_stop(self) -> None:
        """Fail if the run left no checkpoint of its last step, or copies on the workers."""
        run = RUNS / "quickstart"
        newest = self.head.run(
            "coevolve", "attach", str(run), "tail", "step_report", "-n", "1", "--json"
        )
        step = json.loads(newest)["step"]
        folder = self.head.seen(run / "checkpoints")
        assert (folder / f"step_{step}").is_dir(), list(folder.iterdir())
        for worker in self.workers:
            assert "coevolve-" not in worker.run("sh", "-c", "ls $TMPDIR")


def _with_word(node: Node, word: str, places: str) -> str:
    """Return the files on a node that contain a word; the search does not find itself."""
    return node.run("sh", "-c", f"grep -rlas '{word[:-1]}[{word[-1]}]' {places}; true")
