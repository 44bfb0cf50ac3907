"""Measures what a draw, an admission, a judged visit and a commit cost with many tasks or records.

- *draw*: the pool draws among that many live synthesized tasks, and notes the group's request.
- *admission*: the pool is full, so each new task retires the one of least weight.
- *judged visit*: the detector with every kind of rule, when a task of that many falls from 8 to 1
  of 8 successes. The posterior rules then compare it with all others.
- *commit*: append, take and complete 64 records, that many records after one that their member
  holds and does not finish.

Each figure is the median of single calls. ``--beside COMMIT`` measures the code of an earlier
commit with the same benchmark, in turns with today's, each in a process of its own, and prints
medians over the rounds and their ratio.
"""

import argparse
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median

import msgspec
import numpy as np
from rich.table import Table

from coevolve.curriculum.task_pool import Pool
from coevolve.journal.journal import Journal
from coevolve.signals.detector import Detector
from protocols.config import RunConfig
from protocols.evolution_config import SignalsConfig
from protocols.journal import Append, Complete, Message, Receipt, Record, Take
from tests.bench import output
from tests.evolving import admitted, discarded, requested, seed, verdict, visit

SIZES = (100, 1_000, 10_000, 100_000)
CALLS = 40
"""Calls of which the median is taken."""

IN_FLIGHT = 64
RECORDS = 64
"""Records of one commit."""

BATCH = 1000
"""Records of one commit before those that are timed."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of one deed at one size."""

    measure: str
    size: int
    ms: float


def main(arguments: list[str]) -> None:
    """Measure, and print a table or JSON."""
    parser = output.parser_of("scaling", __doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="tasks or records")
    parser.add_argument("--beside", metavar="COMMIT", help="an earlier commit to measure, too")
    parser.add_argument("--rounds", type=int, default=3, help="measurements, with --beside")
    options = parser.parse_args(arguments)
    sizes = [int(size) for size in options.sizes.split(",")]
    if options.beside is None:
        output.show(list(costs(sizes)), _table, as_json=options.json)
    else:
        output.show(_both(options), lambda both: _compared(*both), as_json=options.json, width=100)


def costs(sizes: Sequence[int]) -> Iterator[Cost]:
    """Yield every cost at every size."""
    measures: dict[str, Callable[[int], float]] = {
        "draw": draw_s,
        "admission": admission_s,
        "judged visit, posterior": lambda size: judged_s(size, SignalsConfig(kinds=KINDS)),
        "judged visit, paper": lambda size: judged_s(
            size, SignalsConfig(kinds=KINDS, rules="paper")
        ),
        "commit": commit_s,
    }
    for measure, seconds in measures.items():
        for size in sizes:
            yield Cost(measure=measure, size=size, ms=1e3 * seconds(size))


def draw_s(size: int) -> float:
    """Return the time of a draw among ``size`` live synthesized tasks, and of its request."""
    pool = _full_pool(size)
    generator = np.random.default_rng(0)

    def draw(number: int) -> float:
        started = time.perf_counter()
        pool.fold(requested(number, pool.draw(generator)))
        taken_s = time.perf_counter() - started
        pool.fold(discarded(max(0, number - IN_FLIGHT)))
        return taken_s

    return _median(map(draw, range(IN_FLIGHT + CALLS)))


def admission_s(size: int) -> float:
    """Return the time of admitting a task to a pool that is full with ``size`` tasks."""
    pool = _full_pool(size)
    return _median(_timed(pool.fold, _admission(size + number)) for number in range(CALLS))


KINDS = ("forgetting", "boundary", "rare", "uncertainty")


def judged_s(size: int, config: SignalsConfig) -> float:
    """Return the time of judging a visit with a drop, among ``size`` tasks without one."""
    detector = Detector(config, ("cd", "ls", "mv"), size)
    generator = np.random.default_rng(0)
    for version in range(3):
        for task in range(size):
            skill = 1.0 if task < CALLS else task / size
            successes = int(generator.binomial(8, skill))
            surprise = float(generator.gamma(4.0, 0.1))
            message = visit(f"m{task}", successes, version)
            detector.recall(msgspec.structs.replace(message, surprise=surprise))
    drops = (visit(f"m{task}", 1, version=3) for task in range(CALLS))
    return _median(_timed(detector.judge, drop) for drop in drops)


def commit_s(size: int) -> float:
    """Return the time of 64 records' life, ``size`` records after one that stays unfinished."""
    with tempfile.TemporaryDirectory(prefix="bench-scaling-") as folder:
        journal = Journal.open(Path(folder) / "store")
        work = _Work(journal)
        work.hold_one()
        for _ in range(size // BATCH):
            work.live(BATCH)
        work.live(size % BATCH)
        taken_s = _median(_timed(work.live, RECORDS) for _ in range(CALLS))
        journal.close()
    return taken_s


class _Work:
    """One producer, and one consumer of its records."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._written = 0
        self._held: tuple[int, ...] = ()

    def hold_one(self) -> None:
        """Append a record and take it, for good."""
        self.append(1)
        self._held = self.take(1)

    def live(self, count: int) -> None:
        """Append records, take them and complete them."""
        if count:
            self.append(count)
            self.complete(self.take(count))

    def append(self, count: int) -> None:
        records = (Record(topic="work", body=b"x" * 100),) * count
        self._journal.append(Append(records=records, receipt=self._receipt())).result()

    def take(self, count: int) -> tuple[int, ...]:
        request = Take(
            consumer="bench",
            topics=("work",),
            member="bench",
            incarnation="bench",
            held=self._held,
            limit=count,
            lease_s=3600.0,
            wait_s=0.0,
        )
        return tuple(record.sequence for record in self._journal.take(request).result().records)

    def complete(self, sequences: tuple[int, ...]) -> None:
        request = Complete(
            consumer="bench",
            member="bench",
            incarnation="bench",
            sequences=sequences,
            outputs=(),
            receipt=self._receipt(),
        )
        self._journal.complete(request).result()

    def _receipt(self) -> Receipt:
        self._written += 1
        return Receipt(producer="bench", counter=self._written)


def _full_pool(size: int) -> Pool:
    """Return a pool of ``size`` live synthesized tasks at capacity, half of them visited."""
    config = msgspec.convert(
        {"name": "bench", "pool": {"capacity": size, "synthetic_share": 1.0}}, RunConfig
    )
    pool = Pool(config)
    pool.fold(seed())
    for number in range(size):
        pool.fold(_admission(number))
    for number in range(0, size, 2):
        pool.fold(visit(f"m{number}", 1 + number % 7))
    return pool


def _admission(number: int) -> Message:
    return verdict(f"c{number}", "s", admitted(f"m{number}", 1 + number % 3))


def _timed(deed: Callable[..., object], *arguments: object) -> float:
    started = time.perf_counter()
    deed(*arguments)
    return time.perf_counter() - started


def _median(times: Iterable[float]) -> float:
    """Return the median of the last `CALLS` times."""
    return median(list(times)[-CALLS:])


def _both(options: argparse.Namespace) -> tuple[list[Cost], list[Cost]]:
    """Return the costs of an earlier commit and of today's code, medians over the rounds."""
    today = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory(prefix="bench-scaling-") as folder:
        earlier = Path(folder)
        _check_out(today, options.beside, earlier)
        measured: dict[Path, list[list[Cost]]] = {earlier: [], today: []}
        for _ in range(options.rounds):
            for root, rounds in measured.items():
                rounds.append(_costs_of(root, today, options.sizes))
    return _medians(measured[earlier]), _medians(measured[today])


def _check_out(repository: Path, commit: str, folder: Path) -> None:
    """Write the packages of a commit into ``folder``."""
    command = ["git", "-C", str(repository), "archive", commit, "coevolve", "protocols"]
    packed = subprocess.run(command, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")


def _costs_of(root: Path, tests: Path, sizes: str) -> list[Cost]:
    """Return the costs of the code in ``root``, by the benchmark in ``tests``."""
    command = [sys.executable, "-m", "tests.bench", "scaling", "--json", "--sizes", sizes]
    path = {"PYTHONPATH": os.pathsep.join((str(root), str(tests)))}
    found = subprocess.run(
        command, check=True, cwd=root, env={**os.environ, **path}, stdout=subprocess.PIPE
    )
    return msgspec.json.decode(found.stdout, type=list[Cost])


def _medians(rounds: Sequence[Sequence[Cost]]) -> list[Cost]:
    return [
        msgspec.structs.replace(costs[0], ms=median(cost.ms for cost in costs))
        for costs in zip(*rounds, strict=True)
    ]


def _table(measured: Sequence[Cost]) -> Table:
    cells = [(cost.measure, f"{cost.size:,}", f"{cost.ms:.3f}") for cost in measured]
    return output.table("Cost by size", ("measure", "tasks or records", "ms"), cells)


def _compared(before: Sequence[Cost], now: Sequence[Cost]) -> Table:
    cells = [
        (new.measure, f"{new.size:,}", f"{old.ms:.3f}", f"{new.ms:.3f}", f"{old.ms / new.ms:.1f}")
        for old, new in zip(before, now, strict=True)
    ]
    headings = ("measure", "tasks or records", "before, ms", "now, ms", "before / now")
    return output.table("Cost by size", headings, cells)
