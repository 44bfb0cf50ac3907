"""Measures the journal beside a bare LMDB loop and SQLite, and the state of the disk.

The speed of disks and the load of neighbours change by the minute. So the variants alternate over
several rounds, and the disk's flush (a 4 kB write and its `fdatasync`) is measured before each. The
tables show medians, and ratios of medians. *In process* has two batches in flight. Reads find all
records in the page cache and mapped. `python -m tests.bench calls` measures calls from other
processes.
"""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import get_args

import lmdb
import msgspec
import numpy as np
import psutil
from rich.table import Table

from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from protocols.interfaces import Store
from protocols.journal import Append, Complete, Durability, Receipt, Record, Take
from tests.bench import output
from tests.bench.journal_peers import APPENDERS, NO_LIMIT, TOPIC, requests

RECORD_BYTES = 10_000
BATCHES = (1, 10, 100, 1000)
RUN_RECORDS = {1: 400, 10: 2_000, 100: 10_000, 1000: 20_000}
"""Number of records of one run, by batch size."""

GROUP = 64
TRIPS = 200
CALLERS = 64


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table."""

    measure: str
    value: float
    unit: str
    peers: dict[str, float] = {}
    """The same measurement for the peers, in the same unit."""


def main(arguments: list[str]) -> None:
    """Measure, and print a table or JSON."""
    parser = output.parser_of("journal", __doc__)
    parser.add_argument("--rounds", type=int, default=3, help="repetitions of each comparison")
    parser.add_argument("--records", type=int, default=50_000, help="records to read and copy")
    parser.add_argument("--folder", type=Path, help="where to write; on the disk in question")
    options = parser.parse_args(arguments)
    bodies = [os.urandom(RECORD_BYTES) for _ in range(256)]
    with _scratch(options.folder) as folder:
        rows = [*appends(folder, bodies, options.rounds)]
        for durability in get_args(Durability):
            rows += asyncio.run(answers(folder, bodies, durability))
        rows += reads(folder, bodies, options.records)
    output.show(rows, _table, as_json=options.json, width=120)


def appends(folder: Path, bodies: Sequence[bytes], rounds: int) -> list[Row]:
    """Compare appends per second, batch by batch; also the flush and the bytes written."""
    flushes: list[float] = []
    rows: list[Row] = []
    for durability in get_args(Durability):
        for batch in BATCHES:
            count = RUN_RECORDS[batch]
            rates: dict[str, list[float]] = {name: [] for name in APPENDERS}
            for _ in range(rounds):
                flushes.append(flush_s(folder))
                for name, appender in APPENDERS.items():
                    with _scratch(folder) as place:
                        seconds = appender(place, durability, bodies, batch, count)
                    rates[name].append(count / seconds)
            medians = {name: median(found) for name, found in rates.items()}
            rows.append(
                Row(
                    measure=f"append in process, {durability}, batch {batch}",
                    value=medians.pop("journal"),
                    unit="records/s",
                    peers=medians,
                )
            )
    flush = Row(measure="disk: write 4 kB and flush, p50", value=1e3 * median(flushes), unit="ms")
    return [flush, *rows]


def flush_s(folder: Path) -> float:
    """Return the median time of a small write and its flush."""
    times: list[float] = []
    with (folder / "flush").open("wb", buffering=0) as file:
        for number in range(20):
            started = time.perf_counter()
            os.pwrite(file.fileno(), b"x" * 4096, number * 4096)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - started)
    return median(times)


async def answers(folder: Path, bodies: Sequence[bytes], durability: Durability) -> list[Row]:
    """Measure one caller's latency, that of notifications, and work taken and completed."""
    with _scratch(folder) as place:
        journal = Journal.open(place / "store", durability=durability, retain_bytes=NO_LIMIT)
        store = LocalStore(journal)
        written = _written_bytes()
        commits = await _commit_times(store, bodies)
        written = _written_bytes() - written
        news = await _news_times(store, bodies)
        together = await _rate(store, bodies, callers=CALLERS, batch=1, count=CALLERS * 50)
        started = time.perf_counter()
        done = await _take_and_complete(store)
        seconds = time.perf_counter() - started
        journal.close()
    return [
        *_latencies(f"commit of one 10 kB record, {durability}", commits),
        *_latencies(f"append until a waiter is woken, {durability}", news),
        Row(
            measure=f"append in process, {durability}, {CALLERS} callers x 1",
            value=together,
            unit="records/s",
        ),
        Row(measure=f"take + complete, {durability}", value=done / seconds, unit="records/s"),
        Row(
            measure=f"written per payload byte, {durability}, one a commit",
            value=written / (TRIPS * RECORD_BYTES),
            unit="bytes",
        ),
    ]


async def _commit_times(store: Store, bodies: Sequence[bytes]) -> list[float]:
    times: list[float] = []
    for counter in range(1, TRIPS + 1):
        request = _append([bodies[counter % len(bodies)]], "commits", counter)
        started = time.perf_counter()
        await store.append(request)
        times.append(time.perf_counter() - started)
    return times


async def _news_times(store: Store, bodies: Sequence[bytes]) -> list[float]:
    times: list[float] = []
    newest = await store.wait((), 0, 0.0)
    for counter in range(1, TRIPS + 1):
        waiter = asyncio.create_task(store.wait((TOPIC,), newest, 60.0))
        await asyncio.sleep(0.001)
        started = time.perf_counter()
        writer = asyncio.create_task(
            store.append(_append([bodies[counter % len(bodies)]], "news", counter))
        )
        newest = await waiter
        times.append(time.perf_counter() - started)
        await writer
    return times


async def _take_and_complete(store: Store) -> int:
    """Finish work in groups of `GROUP`, each record with a 1 kB output."""
    groups = 30
    for counter in range(1, groups + 1):
        await store.append(_append([b"x" * 1000] * GROUP, "work", counter, topic="work"))
    output = Record(topic="result", body=b"y" * 1000)
    for counter in range(1, groups + 1):
        records = await store.take(
            Take(
                consumer="bench",
                topics=("work",),
                member="0",
                incarnation="0",
                held=(),
                limit=GROUP,
                lease_s=60.0,
                wait_s=0.0,
            )
        )
        await store.complete(
            Complete(
                consumer="bench",
                member="0",
                incarnation="0",
                sequences=tuple(record.sequence for record in records),
                outputs=(output,) * len(records),
                receipt=Receipt(producer="0", counter=counter),
            )
        )
    return groups * GROUP


def reads(folder: Path, bodies: Sequence[bytes], count: int) -> list[Row]:
    """Measure reading and copying ``count`` records that are in the page cache."""
    with _scratch(folder) as place:
        journal = Journal.open(place / "store", retain_bytes=NO_LIMIT)
        for request in requests(bodies, 1000, count):
            journal.append(request).result()
        file_bytes = (place / "store" / "data.mdb").stat().st_size
        rows = _read_rates(journal, count)
        started = time.perf_counter()
        journal.checkpoint(place / "copy")
        checkpoint_s = time.perf_counter() - started
        journal.close()
        views = _view_rate(place / "store", count)
    return [
        Row(measure="read views, zero copy (bare LMDB scan)", value=views, unit="records/s"),
        *rows,
        Row(
            measure="file bytes per payload byte", value=file_bytes / count / RECORD_BYTES, unit=""
        ),
        Row(measure="online checkpoint", value=checkpoint_s / file_bytes * 1e9, unit="s/GB"),
    ]


def _read_rates(journal: Journal, count: int) -> list[Row]:
    generator = np.random.default_rng(0)
    sequences = (generator.integers(count, size=20_000) + 1).tolist()
    for first in range(1, count + 1, 1000):
        with journal.snapshot() as state:
            state.gather(range(first, min(first + 1000, count + 1)))
    with journal.snapshot() as state:
        started = time.perf_counter()
        state.read(sequences)
        read_s = time.perf_counter() - started
        started = time.perf_counter()
        state.scan(TOPIC, limit=20_000)
        scan_s = time.perf_counter() - started
    return [
        Row(measure="read copies, random", value=20_000 / read_s, unit="records/s"),
        Row(measure="read copies, scan of a topic", value=20_000 / scan_s, unit="records/s"),
    ]


def _view_rate(folder: Path, count: int) -> float:
    with lmdb.open(str(folder), readonly=True, max_dbs=16, readahead=False) as env:
        table = env.open_db(b"records", integerkey=True, create=False)
        with env.begin(buffers=True) as txn:
            for value in txn.cursor(table).iternext(keys=False, values=True):
                bytes(value)
            started = time.perf_counter()
            for value in txn.cursor(table).iternext(keys=False, values=True):
                len(value)
            return count / (time.perf_counter() - started)


async def _rate(
    store: Store, bodies: Sequence[bytes], *, callers: int, batch: int, count: int
) -> float:
    """Return records per second of callers that each wait for one answer at a time."""
    calls = count // callers // batch

    async def caller(name: str) -> None:
        for counter in range(1, calls + 1):
            await store.append(_append(bodies[:batch], name, counter))

    started = time.perf_counter()
    await asyncio.gather(*(caller(f"caller-{number}") for number in range(callers)))
    return calls * callers * batch / (time.perf_counter() - started)


def _append(bodies: Sequence[bytes], producer: str, counter: int, topic: str = TOPIC) -> Append:
    return Append(
        records=tuple(Record(topic=topic, body=body) for body in bodies),
        receipt=Receipt(producer=producer, counter=counter),
    )


def _latencies(measure: str, times: Sequence[float]) -> list[Row]:
    p50, p99 = 1e3 * np.percentile(times, [50, 99])
    return [
        Row(measure=f"{measure}, p50", value=float(p50), unit="ms"),
        Row(measure=f"{measure}, p99", value=float(p99), unit="ms"),
    ]


def _written_bytes() -> int:
    """Return the bytes that this process has passed to write calls so far."""
    return psutil.Process().io_counters().write_chars


@contextmanager
def _scratch(folder: Path | None) -> Generator[Path]:
    """Yield a folder that is removed afterwards."""
    path = Path(tempfile.mkdtemp(prefix="bench-journal-", dir=folder))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def _table(rows: Sequence[Row]) -> Table:
    names = list(dict.fromkeys(name for row in rows for name in row.peers))
    cells: list[Sequence[str]] = []
    for row in rows:
        ratios = [f"{row.value / peer:.2f} {name}" for name, peer in row.peers.items()]
        numbers = [output.number(each) for each in (row.value, *map(row.peers.get, names))]
        cells.append((row.measure, *numbers, row.unit, ", ".join(ratios)))
    headings = ("measure", "journal", *names, "unit", "journal / peer")
    return output.table(f"The journal, {RECORD_BYTES // 1000} kB records", headings, cells)
