"""A learner of several ranks on Ray nodes: ``python -m tests.sharded_nodes FOLDER`` on the head.

It trains the quickstart's model on given groups, with one number of ranks after
another, loses a node with a rank, and prints what it found as one JSON line.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import ray
from msgspec.structs import replace
from ray.util.placement_group import placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.files import FilesActor
from actors.home import Home, node_id
from actors.learner import LearnerActor
from actors.part import RemotePart
from actors.rank import RemoteRanks
from actors.remote_store import RemoteStore
from actors.store import StoreActor
from coevolve.journal.codec import decode_as
from coevolve.journal.reader import STORE_FOLDER, run_reader
from coevolve.launcher.cluster import use_token
from coevolve.launcher.compose import Placement
from coevolve.runs.supervisor import Supervisor
from protocols.config import (
    ClusterConfig,
    DeliveryConfig,
    LearnerConfig,
    PlacementConfig,
    RolloutConfig,
    RunConfig,
    StoreConfig,
)
from protocols.control import PartFailed
from protocols.journal import Receipt
from protocols.learner_config import ImitationConfig
from protocols.learning import Checkpoint, StepReport
from tests.fakes import all_work
from tests.learning import MemoryJournal, add_groups
from tests.nodes import ADDRESS

PER_STEP = 2
LIMIT_S = 300.0
BEFORE_LOSS, ALL = 6, 8
"""Steps until a node is lost, and in all."""


class Found(msgspec.Struct, frozen=True):
    """What the cluster did."""

    reports: Sequence[StepReport]
    checkpoints: Sequence[Checkpoint]
    nodes: Sequence[Sequence[str]]
    """Node of each rank, for each number of ranks in turn."""

    failures: Sequence[str]
    lost_s: float
    """Seconds from the loss of a node to the last step."""


def settings(*, devices: int, steps: int, nodes: str = "any") -> RunConfig:
    """Return settings with which each rank takes a node of two CPUs for itself."""
    return RunConfig(
        name="ranks",
        environment={"use": "filesystem"},
        rollout=RolloutConfig(group_size=4),
        cluster=ClusterConfig(address=ADDRESS),
        placement=PlacementConfig(learner=nodes, cpus={"learner": 2.0}),
        # No engine sampled these rollouts.
        delivery=DeliveryConfig(sampler_tolerance=1.0),
        learner=LearnerConfig(
            steps=steps,
            recover_every=0,
            groups_per_step=PER_STEP,
            refill_batches=0,
            max_staleness=2 * ALL,
            imitation=ImitationConfig(weight=0.0),
            devices=devices,
        ),
    )


def groups(steps: range) -> MemoryJournal:
    """Return a journal with the groups of these steps; all of them have different rewards."""
    journal = MemoryJournal()
    for number in range(PER_STEP * steps.start, PER_STEP * steps.stop):
        add_groups(journal, range(2 * number + 1, 2 * number + 2))
    return journal


class Learner:
    """Learners with different numbers of ranks, one after the other, on one journal."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        here = Placement(settings(devices=1, steps=ALL), node_id()).launcher()
        store = StoreActor.options(**here).remote(run_dir / STORE_FOLDER, StoreConfig())
        files: Any = FilesActor.options(**here).remote(run_dir, None)
        self._store = RemoteStore(store)
        self._home = Home(folder=str(run_dir), run_id="ranks", node=node_id(), files=files)
        self._appended = 0
        self.nodes: list[list[str]] = []
        self.failures: list[str] = []

    async def add(self, steps: range) -> None:
        """Append the groups of these steps."""
        self._appended += 1
        receipt = Receipt(producer="test", counter=self._appended)
        await self._store.append(replace(groups(steps).as_append(), receipt=receipt))

    @asynccontextmanager
    async def training(self, devices: int, steps: int, nodes: str = "any"):
        """Train to a number of steps; yield when the ranks have their nodes."""
        config = settings(devices=devices, steps=steps, nodes=nodes)
        options = Placement(config, node_id()).ranks(devices, 0)
        ranks = RemoteRanks(config=config, home=self._home, options=options)
        arguments = ("learner", config, self._home, self._store, (), ranks)
        actor: Any = LearnerActor.options(**options[0]).remote(*arguments)
        part = RemotePart("learner", actor)
        supervising = asyncio.create_task(
            Supervisor([part], self._note, restart_s=60.0, note_resting=all_work).run()
        )
        group = getattr(options[0].get("scheduling_strategy"), "placement_group", None)
        if group is not None:
            await group.ready()
            places = placement_group_table(group)["bundles_to_node_id"]
            self.nodes.append([places[rank] for rank in range(devices)])
        yield
        await supervising
        ray.kill(actor)
        if group is not None:
            remove_placement_group(group)

    async def reach(self, step: int) -> None:
        """Wait until a step is recorded."""
        newest = 0
        while not any(report.step == step for report in await self.all(StepReport)):
            newest = await self._store.wait(("step_report",), newest, 10.0)

    async def all(self, kind: type[Any]) -> list[Any]:
        """Return all records of a kind."""
        topic = {StepReport: "step_report", Checkpoint: "checkpoint"}[kind]
        return [decode_as(each, kind) for each in await run_reader(self._run_dir).scan(topic)]

    async def _note(self, failure: PartFailed) -> None:
        self.failures.append(failure.reason)


@ray.remote(num_cpus=0, max_retries=0)
def kill_raylet() -> None:
    os.kill(os.getppid(), signal.SIGKILL)


async def main(folder: Path) -> Found:
    """Train with 2, 1, 3 and 2 ranks, and lose a node at the end."""
    learner = Learner(folder / "run")
    await learner.add(range(BEFORE_LOSS))
    for devices, steps, nodes in ((2, 3, "group=worker"), (1, 4, "group=worker"), (3, 5, "any")):
        async with learner.training(devices, steps, nodes):
            pass
    async with learner.training(2, ALL):
        await learner.reach(BEFORE_LOSS)
        lost = next(node for node in learner.nodes[-1] if node != node_id())
        there = NodeAffinitySchedulingStrategy(lost, soft=False)
        kill_raylet.options(scheduling_strategy=there).remote()
        started = time.monotonic()
        await learner.add(range(BEFORE_LOSS, ALL))
    return Found(
        reports=await learner.all(StepReport),
        checkpoints=await learner.all(Checkpoint),
        nodes=learner.nodes,
        failures=learner.failures,
        lost_s=time.monotonic() - started,
    )


if __name__ == "__main__":
    use_token()
    ray.init(address=ADDRESS, namespace="ranks", log_to_driver=False)
    found = asyncio.run(asyncio.wait_for(main(Path(sys.argv[1])), LIMIT_S))
    sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
