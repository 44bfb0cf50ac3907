"""The same appends with the journal, a bare LMDB loop and SQLite, at the same durability.

| level     | journal          | bare LMDB                          | SQLite (WAL)       |
|-----------|------------------|------------------------------------|--------------------|
| `process` | level `process`  | `sync=False`                       | `synchronous=OFF`  |
| `power`   | level `power`    | `metasync=False`, one flush a batch | `synchronous=FULL` |

The bare loop puts bodies under integer keys: no topics, no indexes, no receipts, no answers, no
other thread. At level ``power`` it may not answer a batch before the next one is written, as the
journal does.
"""

import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from itertools import cycle, islice
from pathlib import Path

import lmdb

from coevolve.journal.journal import Journal
from protocols.journal import Append, Durability, Receipt, Record

TOPIC = "rollout"
NO_LIMIT = 1 << 50
IN_FLIGHT = 2
"""Batches of the journal in flight: one is written while the next is prepared."""

Appender = Callable[[Path, Durability, Sequence[bytes], int, int], float]
"""(folder, durability, bodies, batch, records) -> seconds."""


def journal_s(
    folder: Path, durability: Durability, bodies: Sequence[bytes], batch: int, count: int
) -> float:
    """Append through `Journal`, one request a batch."""
    journal = Journal.open(folder / "store", durability=durability, retain_bytes=NO_LIMIT)
    waiting: deque[Future[tuple[int, ...]]] = deque()
    started = time.perf_counter()
    for number, request in enumerate(requests(bodies, batch, count)):
        if number >= IN_FLIGHT:
            waiting.popleft().result()
        waiting.append(journal.append(request))
    for answer in waiting:
        answer.result()
    seconds = time.perf_counter() - started
    journal.close()
    return seconds


def requests(bodies: Sequence[bytes], batch: int, count: int) -> Iterator[Append]:
    """Yield appends of ``batch`` records by as many producers as may be in flight."""
    records = cycle([Record(topic=TOPIC, body=body) for body in bodies])
    for number in range(count // batch):
        receipt = Receipt(
            producer=f"producer-{number % IN_FLIGHT}", counter=1 + number // IN_FLIGHT
        )
        yield Append(records=tuple(islice(records, batch)), receipt=receipt)


def lmdb_s(
    folder: Path, durability: Durability, bodies: Sequence[bytes], batch: int, count: int
) -> float:
    """Append with LMDB alone, one transaction a batch."""
    env = lmdb.open(
        str(folder), map_size=1 << 40, max_dbs=1, sync=durability == "power", metasync=False
    )
    table = env.open_db(b"records", integerkey=True)
    source = cycle(bodies)
    key = 0
    started = time.perf_counter()
    for _ in range(count // batch):
        with env.begin(write=True, db=table) as txn:
            for _ in range(batch):
                key += 1
                txn.put(key.to_bytes(8, "little"), next(source), append=True)
    if durability == "power":
        env.sync(True)
    seconds = time.perf_counter() - started
    env.close()
    return seconds


def sqlite_s(
    folder: Path, durability: Durability, bodies: Sequence[bytes], batch: int, count: int
) -> float:
    """Append with SQLite, one transaction a batch."""
    connection = sqlite3.connect(folder / "peer.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={'FULL' if durability == 'power' else 'OFF'}")
    connection.execute("CREATE TABLE records (sequence INTEGER PRIMARY KEY, body BLOB)")
    source = cycle(bodies)
    started = time.perf_counter()
    for _ in range(count // batch):
        connection.execute("BEGIN")
        rows = [(next(source),) for _ in range(batch)]
        connection.executemany("INSERT INTO records (body) VALUES (?)", rows)
        connection.execute("COMMIT")
    seconds = time.perf_counter() - started
    connection.close()
    return seconds


APPENDERS: dict[str, Appender] = {"journal": journal_s, "LMDB": lmdb_s, "SQLite": sqlite_s}
