"""A run whose rollout engines follow the nodes of its cluster."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands import ROOT
from tests.nodes import ADDRESS, Node, forbidden, nodes

REASON = forbidden()

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(REASON), reason=f"nodes: {REASON}"),
]

WITHIN_S = 60.0
START_S = 120.0

RUN = (
    f"cluster.address={ADDRESS}",
    "placement.rollout=group=worker",
    "placement.evaluator=launcher",
    "placement.learner=launcher",
    "placement.simulator=launcher",
    "rollout.actors=3",
    "rollout.actors_per_node=1",
    "arm=static",
    "learner.steps=2000",
    "learner.groups_per_step=4",
    "rollout.group_size=4",
    "environment.held_out=12",
    "rollout.in_flight_groups=8",
    "evaluator.every=2000",
)


class Launched:
    """A run on the head, and what it prints."""

    def __init__(self, head: Node, log: Path) -> None:
        self._log = log
        run_file = str(ROOT / "configs/quickstart.yaml")
        self.process = head.start("python", "-m", "coevolve.launch", run_file, *RUN, log=log)

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return the JSON lines of one kind."""
        lines = self._log.read_text().splitlines()
        return [json.loads(line) for line in lines if f'"event": "{kind}"' in line]

    def until(self, what: str, condition: Callable[[], bool], within_s: float = WITHIN_S) -> None:
        """Wait for a condition, and print the seconds. Fails with the run's output."""
        started = time.monotonic()
        while not condition():
            waits = time.monotonic() - started < within_s and self.process.poll() is None
            assert waits, f"waited for {what}:\n{self._log.read_text()[-4000:]}"
            time.sleep(0.1)
        sys.stdout.write(f"{what}: {time.monotonic() - started:.1f} s\n")

    def further_steps(self, what: str) -> None:
        """Wait for two more steps."""
        before = len(self.events("step"))
        self.until(what, lambda: len(self.events("step")) > before + 1)


def join(node: Node, folder: Path) -> None:
    """Start Ray on a node and wait for it."""
    log = folder / f"{node.address}-{time.monotonic_ns()}"
    node.join(log, *(() if node.address in ADDRESS else ("--labels", "group=worker")))
    deadline = time.monotonic() + WITHIN_S
    while "Ray runtime started" not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def test_rollout_engines_follow_nodes_that_join_and_leave(tmp_path: Path):
    with nodes(3) as (head, first, second):
        join(head, tmp_path)
        join(first, tmp_path)
        run = Launched(head, tmp_path / "run")
        run.until("the first step", lambda: bool(run.events("step")), START_S)
        join(second, tmp_path)
        both = ["rollout-0", "rollout-1"]
        run.until("an engine on a node that joined", lambda: scaled(run) == [both])
        first.kill_ray()
        run.until("its engine to be let go", lambda: scaled(run)[1:] == [["rollout-1"]])
        run.further_steps("two steps without a lost node")
        head.run("coevolve", "attach", "--address", ADDRESS, "stop")
        assert run.process.wait(WITHIN_S) == 0
        assert not run.events("weight_sync_alarm")


def scaled(run: Launched) -> list[list[str]]:
    """Return the engines after each change."""
    return [event["engines"] for event in run.events("rollout_scaled")]
