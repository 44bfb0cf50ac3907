"""Measures the store actor with many rollout actors whose engines cost nothing.

Everything between the parts is real: Ray, the store actor and its journal, the rollout workers, the
signal extractor, and their mailboxes. All callers reach the store by its socket, as on its own
node, or all by Ray's calls, as from another machine. A rollout's whole life counts: its request is
appended, taken and completed with the rollout, and signals and learner take and complete it. The
engine costs nothing, the observer only sums up, and the learner consumes groups without training on
them.

Calls carry more records, and cost less for each, the faster rollouts come. ``--seconds`` makes each
rollout last, which slows the system down to what its engines would allow.
"""

import asyncio
import logging
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import psutil
import ray
from rich.table import Table

from actors.remote_store import RemoteReader, RemoteStore
from actors.store import StoreActor
from coevolve.curriculum.group_requests import group_requests
from coevolve.journal.layout import DATA_FILE
from coevolve.journal.mailbox import Mailbox
from coevolve.rollouts.agent import Agent, Episode
from coevolve.rollouts.served_version import ServedVersion
from coevolve.rollouts.worker import RolloutWorker
from coevolve.signals.extractor import SignalExtractor
from coevolve.signals.groups import CompleteGroup, OpenGroups, summary_of
from protocols import columns
from protocols.config import RunConfig
from protocols.evolution import GroupSummary, Signal
from protocols.interfaces import Part, Store
from protocols.journal import Message
from protocols.learning import GroupDiscarded, PolicyVersion, WeightsVerified
from protocols.rollouts import FailedRollout, Rollout, Tokens
from protocols.tasks import Task
from tests.bench import output
from tests.bench.calls import LINES, all_cpu_s, process_cpu_s
from tests.contexts import context_of
from tests.evolving import seed

BYTES_PER_TOKEN = 13
"""Of the columns `Tokens.token_ids`, ``mask``, ``logprobs`` and ``versions``."""

TAKE_LIMIT = 256
WAIT_S = 120.0
"""Bounds every wait of the benchmark."""


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """What one round measured."""

    line: str
    """How callers reached the store."""

    rollouts_per_s: float
    megabytes_per_s: float
    """Growth of the stored rollouts, which every round reads twice."""

    store_ms: float
    """CPU milliseconds of the store's process per rollout."""

    all_ms: float
    """CPU milliseconds per rollout of all processes, Ray's own included."""


def main(arguments: list[str]) -> None:
    """Measure, and print a table or JSON."""
    parser = output.parser_of("store", __doc__)
    parser.add_argument("--actors", type=int, default=8, help="rollout actors")
    parser.add_argument("--kilobytes", type=int, default=30, help="size of a rollout")
    parser.add_argument("--groups", type=int, default=128, help="groups in flight")
    parser.add_argument("--seconds", type=float, default=0.0, help="duration of a rollout")
    parser.add_argument("--rollouts", type=int, default=4096, help="rollouts of a round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    config = msgspec.convert(
        {
            "name": "bench",
            "rollout": {"actors": options.actors, "in_flight_groups": options.groups},
        },
        RunConfig,
    )
    agent = ReadyAgent(options.kilobytes * 1000, options.seconds)
    speeds = asyncio.run(measure(config, agent, options.rollouts, options.rounds))
    output.show(speeds, _table, as_json=options.json)


async def measure(
    config: RunConfig, agent: "ReadyAgent", rollouts: int, rounds: int
) -> list[Speed]:
    """Return the speed of each round by each line, after one that is not measured."""
    ray.init(
        address="local",
        num_cpus=1,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    try:
        speeds: list[Speed] = []
        for line in LINES:
            with tempfile.TemporaryDirectory(prefix="bench-store-") as folder:
                loop = _Loop(config, Path(folder), agent, line)
                await loop.start()
                await loop.consume(rollouts)
                speeds += [await loop.speed(rollouts) for _ in range(rounds)]
                await loop.stop()
        return speeds
    finally:
        ray.shutdown()


class _Loop:
    """The actors, and a curriculum that keeps as many groups in flight as configured."""

    def __init__(self, config: RunConfig, folder: Path, agent: "ReadyAgent", line: str) -> None:
        self._config = config
        self._line = line
        self._file = folder / "store" / DATA_FILE
        actor: Any = StoreActor.remote(folder / "store", config.store)
        self._actor = actor
        store = RemoteStore(actor, LINES[line])
        reader = store.reader()
        names = [f"rollout-{number}" for number in range(config.rollout.actors)]
        self._parts: list[Any] = [
            *(_RolloutActor.remote(name, config, store, reader, agent) for name in names),
            _SignalsActor.remote(config, store, reader),
            _LearnerActor.remote(config, store),
        ]
        self._mailbox = Mailbox(
            store,
            consumer="curriculum",
            topics=("group_discarded",),
            member="curriculum",
            lease_s=config.store.lease_s,
        )
        self._running: list[Any] = []
        self._groups = 0

    async def start(self) -> None:
        """Publish a policy version, request the first groups and let the parts run."""
        await self._mailbox.append([seed(), VERSION])
        self._store = psutil.Process((await self._actor.status.remote()).pid)
        self._running = [part.run.remote() for part in self._parts]
        await self._request(self._config.rollout.in_flight_groups, [])

    async def consume(self, rollouts: int) -> None:
        """Return once that many more rollouts have been consumed and replaced."""
        missing = rollouts // self._config.rollout.group_size
        while missing > 0:
            taken = await asyncio.wait_for(self._mailbox.take(TAKE_LIMIT), WAIT_S)
            self._check()
            await self._request(len(taken), [delivery.sequence for delivery in taken])
            missing -= len(taken)

    async def speed(self, rollouts: int) -> Speed:
        """Return the speed of that many rollouts."""
        started_s, store_s, all_s = time.perf_counter(), process_cpu_s(self._store), all_cpu_s()
        size_bytes = self._file.stat().st_size
        await self.consume(rollouts)
        took_s = time.perf_counter() - started_s
        return Speed(
            line=self._line,
            rollouts_per_s=rollouts / took_s,
            megabytes_per_s=(self._file.stat().st_size - size_bytes) / 1e6 / took_s,
            store_ms=1e3 * (process_cpu_s(self._store) - store_s) / rollouts,
            all_ms=1e3 * (all_cpu_s() - all_s) / rollouts,
        )

    async def stop(self) -> None:
        """Let the parts and the store end."""
        await asyncio.gather(*(part.stop.remote() for part in self._parts))
        await asyncio.gather(*self._running)
        await self._actor.close.remote()
        for actor in (*self._parts, self._actor):
            ray.kill(actor)

    async def _request(self, groups: int, finished: Sequence[int]) -> None:
        requests: list[Message] = []
        for number in range(self._groups, self._groups + groups):
            requests += group_requests(self._config, number, seed().task_id)
        self._groups += groups
        await self._mailbox.complete(finished, requests)

    def _check(self) -> None:
        """Raise the error of a part that has ended."""
        ended, _ = ray.wait(self._running, timeout=0)
        ray.get(ended)


class _PartShell:
    """Runs a part."""

    def __init__(self, part: Part) -> None:
        self._part = part

    async def run(self) -> None:
        await self._part.run()

    async def stop(self) -> None:
        await self._part.stop()


@ray.remote(num_cpus=0)
class _RolloutActor(_PartShell):
    def __init__(
        self, name: str, config: RunConfig, store: Store, reader: RemoteReader, agent: Agent
    ) -> None:
        engine: Any = _Engine(name)
        super().__init__(
            RolloutWorker(
                context_of(config, store, "rollout", reader=reader),
                name,
                engine=engine,
                agents={"policy": agent},
                served=ServedVersion(),
            )
        )


@ray.remote(num_cpus=0)
class _SignalsActor(_PartShell):
    def __init__(self, config: RunConfig, store: Store, reader: RemoteReader) -> None:
        super().__init__(
            SignalExtractor(context_of(config, store, "signals", reader=reader), _Observer)
        )


@ray.remote(num_cpus=0)
class _LearnerActor:
    """Takes and completes rollouts as the learner does, one batch at a time, without training."""

    def __init__(self, config: RunConfig, store: Store) -> None:
        self._config = config
        self._mailbox = Mailbox(
            store,
            consumer="learner",
            topics=("rollout", "failed_rollout"),
            member="learner",
            lease_s=config.store.lease_s,
        )
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        open_groups = OpenGroups()
        groups: list[CompleteGroup] = []
        per_step, size = self._config.learner.groups_per_step, self._config.rollout.group_size
        while not self._stopping.is_set():
            missing = open_groups.missing(max(1, per_step - len(groups)), size)
            for sequence, message in await self._mailbox.take(
                TAKE_LIMIT, 1.0, min(TAKE_LIMIT, missing)
            ):
                assert isinstance(message, Rollout | FailedRollout)
                if group := open_groups.add(sequence, message):
                    groups.append(group)
            while len(groups) >= per_step:
                await self._consume(groups[:per_step])
                del groups[:per_step]

    async def stop(self) -> None:
        self._stopping.set()

    async def _consume(self, groups: Sequence[CompleteGroup]) -> None:
        sequences = [sequence for group in groups for sequence in group.sequences]
        await self._mailbox.complete(sequences, [_discarded(group) for group in groups])


class _Engine:
    """Serves every version at once."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def serve(self, version: PolicyVersion) -> WeightsVerified:
        return WeightsVerified(
            engine=self._name,
            version=version.version,
            digest=version.digest,
            max_abs_difference=0.0,
            wall_s=0.0,
            pause_s=0.0,
            proven_ns=time.time_ns(),
        )


class ReadyAgent:
    """Answers every request with the same episode."""

    def __init__(self, size_bytes: int, seconds: float) -> None:
        self._seconds = seconds
        count = size_bytes // BYTES_PER_TOKEN
        self._episode = Episode(
            tokens=Tokens(
                token_ids=columns.int32(range(count)),
                mask=b"\1" * count,
                logprobs=columns.float32([-0.5] * count),
                versions=columns.int32([0] * count),
            ),
            actions=(),
            turns_passed=1,
            turns_total=1,
            reward=1.0,
            ended="finished",
            versions=(0,),
            oldest_version=0,
            wall_s=seconds,
        )

    async def attempt(self, task: Task, session: str, *, seed: int) -> Episode:
        await asyncio.sleep(self._seconds)
        return self._episode


class _Observer:
    """Sums groups up and finds nothing."""

    topics: tuple[str, ...] = ()

    def recall(self, message: Message) -> None:
        raise AssertionError(message)

    async def judge(self, group: CompleteGroup) -> tuple[GroupSummary, Sequence[Signal]]:
        return summary_of(group.members, root=group.members[0][1].task_id, calls=0), ()


VERSION = PolicyVersion(
    version=0, path="weights", format="full", digest="d", size_bytes=1, kept=False
)


def _discarded(group: CompleteGroup) -> GroupDiscarded:
    first = group.members[0][1]
    return GroupDiscarded(
        group_id=first.group_id,
        group=first.group,
        task_id=first.task_id,
        reason="stale",
        successes=0,
        rollouts=len(group.members),
        groups_consumed=first.group + 1,
    )


def _table(speeds: Sequence[Speed]) -> Table:
    cells: list[Sequence[str]] = []
    for line in LINES:
        rows = [msgspec.structs.astuple(each)[1:] for each in speeds if each.line == line]
        named = {
            **{str(number): row for number, row in enumerate(rows, 1)},
            "median": [median(column) for column in zip(*rows, strict=True)],
        }
        cells += [(line, name, *map(output.number, row)) for name, row in named.items()]
    headings = (
        "calls by",
        "round",
        "rollouts/s",
        "MB/s",
        "store CPU, ms a rollout",
        "all CPU, ms a rollout",
    )
    return output.table("The store", headings, cells, words=2)
