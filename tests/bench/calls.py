"""Measures calls of the store from other processes: by its socket beside Ray's calls.

*CPU of a call* counts all processes, Ray's own included. *Until a waiter returns* is from the start
of an append in this process to the return of `wait` or `take` in another. Reads through the store
stand beside reads of its map; their records are in the page cache, and no reader has kept any. The
last rows measure appends by the socket while another process scans the journal without a pause.
The variants alternate over several rounds, and the table shows medians.
"""

import asyncio
import logging
import os
import random
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, get_args

import msgspec
import numpy as np
import psutil
import ray
from rich.table import Table

from actors.remote_store import Connect, RemoteStore, fastest_line, ray_line
from actors.store import StoreActor
from coevolve.journal.reader import JournalReader
from protocols.config import StoreConfig
from protocols.interfaces import Reader, Store
from protocols.journal import Append, Durability, Receipt, Record, Take
from tests.bench import output

TOPIC = "rollout"
RECORD_BYTES = 10_000
LOADS = {(4, 64): 8192, (4, 8): 2048, (16, 1): 1600, (1, 1): 400}
"""Callers and the records of each call -> records of one round."""

LINES: dict[str, Connect] = {"socket": fastest_line, "Ray": ray_line}
PAUSE_S = 0.01
"""Before each append that wakes another process, so that it waits by then."""

WAIT_S = 60.0
LEASE_S = 60.0


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table: medians by way."""

    measure: str
    unit: str
    values: dict[str, float]


def main(arguments: list[str]) -> None:
    """Measure, and print a table or JSON."""
    parser = output.parser_of("calls", __doc__)
    parser.add_argument("--rounds", type=int, default=3, help="repetitions of each comparison")
    parser.add_argument(
        "--trips", type=int, default=100, help="appends that wake a waiter, a round"
    )
    parser.add_argument("--reads", type=int, default=5000, help="records read in a round")
    parser.add_argument(
        "--durability", choices=get_args(Durability), default="process", help="of the journal"
    )
    parser.add_argument("--folder", type=Path, help="where to write; on the disk in question")
    options = parser.parse_args(arguments)
    ray.init(
        address="local",
        num_cpus=1,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    try:
        with tempfile.TemporaryDirectory(prefix="bench-calls-", dir=options.folder) as folder:
            bench = _Bench(Path(folder) / "store", options.durability, options.rounds)
            rows = asyncio.run(bench.measure(options.trips, options.reads))
    finally:
        ray.shutdown()
    output.show(rows, _table, as_json=options.json, width=110)


class _Bench:
    """A store's actor, and its callers."""

    def __init__(self, folder: Path, durability: Durability, rounds: int) -> None:
        self._folder = folder
        self._rounds = rounds
        self._actor: Any = StoreActor.remote(folder, StoreConfig(durability=durability))
        self._stores = {name: RemoteStore(self._actor, way) for name, way in LINES.items()}
        self._bodies = [os.urandom(RECORD_BYTES) for _ in range(64)]
        self._written = 0

    async def measure(self, trips: int, reads: int) -> list[Row]:
        """Return all rows."""
        for store in self._stores.values():
            await store.statistics()
        rows = [row for load in LOADS for row in await self._appends(*load)]
        rows += await self._wakings(trips)
        rows += await self._reads(reads)
        rows += await self._disturbed(trips)
        await self._actor.close.remote()
        return rows

    async def _appends(self, callers: int, batch: int) -> list[Row]:
        count = LOADS[callers, batch]
        rates: dict[str, list[float]] = {name: [] for name in LINES}
        costs: dict[str, list[float]] = {name: [] for name in LINES}
        for _ in range(self._rounds):
            for name, store in self._stores.items():
                cpu_s, started = all_cpu_s(), time.perf_counter()
                await self._append_by(store, callers, batch, count)
                rates[name].append(count / (time.perf_counter() - started))
                costs[name].append(1e3 * (all_cpu_s() - cpu_s) / (count / batch))
                self._written += count
        load = f"{callers} callers x {batch}"
        return [
            Row(measure=f"appends, {load}", unit="records/s", values=_medians(rates)),
            Row(measure=f"CPU of a call, {load}", unit="ms", values=_medians(costs)),
        ]

    async def _append_by(self, store: Store, callers: int, batch: int, count: int) -> None:
        """Append ``count`` records by callers that each wait for one answer at a time."""
        requests = _requests(self._bodies[:batch])

        async def caller() -> None:
            request = requests()
            for counter in range(1, count // callers // batch + 1):
                await store.append(request(counter))

        await asyncio.gather(*(caller() for _ in range(callers)))

    async def _wakings(self, trips: int) -> list[Row]:
        rows: list[Row] = []
        for call in ("wait", "take"):
            times: dict[str, list[float]] = {name: [] for name in LINES}
            for _ in range(self._rounds):
                for name, store in self._stores.items():
                    times[name].append(median(await self._waking_times(store, call, trips)))
            rows.append(
                Row(
                    measure=f"append until a `{call}` in another process returns, p50",
                    unit="ms",
                    values=_medians(times),
                )
            )
        return rows

    async def _waking_times(self, store: RemoteStore, call: str, trips: int) -> list[float]:
        topic = uuid.uuid4().hex
        waiter: Any = _Waiter.remote(store, topic)
        request = _requests([self._bodies[0]], topic)()
        times: list[float] = []
        newest = 0
        for counter in range(trips + 1):
            waking = getattr(waiter, call).remote(newest)
            await asyncio.sleep(PAUSE_S)
            started = time.perf_counter()
            (newest,) = await store.append(request(counter + 1))
            times.append(1e3 * (await waking - started))
        ray.kill(waiter)
        return times[1:]

    async def _reads(self, count: int) -> list[Row]:
        ways: dict[str, Callable[[], Reader]] = {
            **{name: store.reader for name, store in self._stores.items()},
            "map": partial(JournalReader, self._folder),
        }
        random_ = random.Random(0)
        sequences = [random_.randrange(1, self._written + 1) for _ in range(count)]
        acts: dict[str, Callable[[Reader], Awaitable[Any]]] = {
            "reads of random records": lambda reader: reader.read(sequences),
            "reads of a topic": lambda reader: reader.scan(TOPIC, limit=count),
        }
        store = psutil.Process((await self._actor.status.remote()).pid)
        rows: list[Row] = []
        for measure, act in acts.items():
            rates: dict[str, list[float]] = {name: [] for name in ways}
            costs: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(self._rounds):
                for name, way in ways.items():
                    reader, cpu_s, started = way(), process_cpu_s(store), time.perf_counter()
                    await act(reader)
                    rates[name].append(count / (time.perf_counter() - started))
                    costs[name].append(1e6 * (process_cpu_s(store) - cpu_s) / count)
            rows += [
                Row(measure=measure, unit="records/s", values=_medians(rates)),
                Row(measure=f"{measure}, CPU of the store", unit="us", values=_medians(costs)),
            ]
        return rows

    async def _disturbed(self, trips: int) -> list[Row]:
        """Measure appends beside a process that scans, in each way, and beside none."""
        store = self._stores["socket"]
        times: dict[str, list[float]] = {"alone": [], "map": []} | {name: [] for name in LINES}
        for _ in range(self._rounds):
            for name, found in times.items():
                scanning: Any = _Scanning.remote(
                    self._actor, LINES.get(name, fastest_line), self._folder
                )
                if name != "alone":
                    scanning.scan.remote(on_map=name == "map")
                await asyncio.sleep(0.5)
                found += await self._commit_times(store, trips)
                ray.kill(scanning)
        return [
            Row(
                measure=f"append beside scans, p{percent}",
                unit="ms",
                values={name: float(np.percentile(each, percent)) for name, each in times.items()},
            )
            for percent in (50, 99)
        ]

    async def _commit_times(self, store: Store, trips: int) -> list[float]:
        request = _requests([self._bodies[0]], "commits")()
        times: list[float] = []
        for counter in range(1, trips + 1):
            started = time.perf_counter()
            await store.append(request(counter))
            times.append(1e3 * (time.perf_counter() - started))
        return times


@ray.remote(num_cpus=0)
class _Waiter:
    """Says when a call returned, by the clock that all processes share."""

    def __init__(self, store: RemoteStore, topic: str) -> None:
        self._store = store
        self._topic = topic
        self._held: tuple[int, ...] = ()

    async def wait(self, after: int) -> float:
        await self._store.wait((self._topic,), after, WAIT_S)
        return time.perf_counter()

    async def take(self, after: int) -> float:
        records = await self._store.take(
            Take(
                consumer=self._topic,
                topics=(self._topic,),
                member="0",
                incarnation="0",
                held=self._held,
                limit=1,
                lease_s=LEASE_S,
                wait_s=WAIT_S,
            )
        )
        returned = time.perf_counter()
        self._held = (*self._held, *(record.sequence for record in records))
        return returned


@ray.remote(num_cpus=0)
class _Scanning:
    """Scans without a pause until it is killed."""

    def __init__(self, actor: Any, connect: Connect, folder: Path) -> None:
        self._store = RemoteStore(actor, connect)
        self._folder = folder

    async def scan(self, *, on_map: bool) -> None:
        reader = JournalReader(self._folder) if on_map else self._store.reader()
        while True:
            await reader.scan(TOPIC, limit=1000)


def _requests(bodies: Sequence[bytes], topic: str = TOPIC) -> Callable[[], Callable[[int], Append]]:
    """Return what makes producers, each of which makes a request from a counter."""
    records = tuple(Record(topic=topic, body=body) for body in bodies)

    def producer() -> Callable[[int], Append]:
        name = uuid.uuid4().hex
        return lambda counter: Append(
            records=records, receipt=Receipt(producer=name, counter=counter)
        )

    return producer


def _medians(found: dict[str, list[float]]) -> dict[str, float]:
    return {name: median(values) for name, values in found.items()}


def process_cpu_s(process: psutil.Process) -> float:
    """Return the CPU seconds of a process; 0 if it has ended."""
    with suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return times.user + times.system
    return 0.0


def all_cpu_s() -> float:
    """Return the CPU seconds of this process and of all that descend from it."""
    this = psutil.Process()
    return sum(map(process_cpu_s, (this, *this.children(recursive=True))))


def _table(rows: Sequence[Row]) -> Table:
    names = list(dict.fromkeys(name for row in rows for name in row.values))
    cells = [
        (row.measure, *(output.number(row.values.get(name)) for name in names), row.unit)
        for row in rows
    ]
    return output.table(
        f"Calls of the store, {RECORD_BYTES // 1000} kB records", ("measure", *names, "unit"), cells
    )
