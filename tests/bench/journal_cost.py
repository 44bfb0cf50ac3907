"""Compares the CPU seconds of the journal in two checkouts, this one and another.

Each round starts a process for each checkout, in alternating order, on the same work: appends at
level `process`, reads of copies, and work taken and completed, with 10 kB records in memory. They
take less than the second between two flushes. Rows with *open* and *close* add what a journal does
once: it is checked and opened, and at its end the disk gets everything. The table shows medians
over the rounds, and the median of the rounds' ratios.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from statistics import median

import msgspec
import numpy as np
from rich.table import Table

from coevolve.journal.journal import Journal
from protocols.journal import Append, Complete, Receipt, Record, Take
from tests.bench import output
from tests.bench.journal_peers import IN_FLIGHT, NO_LIMIT, TOPIC, requests

BODY_BYTES = 10_000
APPENDS = {1: 3_000, 10: 10_000, 100: 20_000, 1000: 20_000}
"""Number of records of one run, by batch size."""

READS = 10_000
PAGE = 10
"""Records of one read: few, so that the copies use the same memory again. The kernel takes longer
to give a page of memory than the journal takes to read a record."""

GROUP = 64
GROUPS = 100


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One measure, in microseconds of CPU for each record."""

    measure: str
    here_us: float
    beside_us: float
    ratio: float
    """Median of the rounds' ratios, here by beside."""


def main(arguments: list[str]) -> None:
    """Measure, and print a table or JSON."""
    parser = output.parser_of("journal-cost", __doc__)
    parser.add_argument("--beside", type=Path, help="the other checkout")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args(arguments)
    if options.beside is None:
        sys.stdout.write(json.dumps(_measured()))
        return
    rounds = [_round(options.beside.resolve(), number) for number in range(options.rounds)]
    rows = [
        Row(
            measure=measure,
            here_us=median(here[measure] for here, _ in rounds),
            beside_us=median(beside[measure] for _, beside in rounds),
            ratio=median(here[measure] / beside[measure] for here, beside in rounds),
        )
        for measure in rounds[0][0]
    ]
    output.show(rows, _table, as_json=options.json)


def _round(beside: Path, number: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the measures of this checkout and of the other one."""
    here = Path(__file__).parents[2]
    order = (here, beside) if number % 2 else (beside, here)
    found = {checkout: _of(checkout) for checkout in order}
    return found[here], found[beside]


def _of(checkout: Path) -> dict[str, float]:
    program = [sys.executable, __file__]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(program, env=environment, cwd=checkout, check=True, capture_output=True)
    return json.loads(done.stdout)


def _measured() -> dict[str, float]:
    """Return microseconds of CPU for each record, by measure."""
    bodies = [os.urandom(BODY_BYTES) for _ in range(256)]
    folder = Path(tempfile.mkdtemp(prefix="bench-journal-cost-"))
    try:
        return {
            **_appends(folder, bodies),
            **_reads(folder, bodies),
            "take + complete": _work(folder),
        }
    finally:
        shutil.rmtree(folder)


def _appends(folder: Path, bodies: Sequence[bytes]) -> dict[str, float]:
    found: dict[str, float] = {}
    for batch, count in APPENDS.items():
        begun = time.process_time()
        found[f"append, batch {batch}"] = _append(folder / str(batch), bodies, batch, count)
        found[f"open, append in batches of {batch}, close"] = _us_since(begun, count)
        shutil.rmtree(folder / str(batch))
    return found


def _append(place: Path, bodies: Sequence[bytes], batch: int, count: int) -> float:
    journal = Journal.open(place, retain_bytes=NO_LIMIT)
    found = _us(lambda: _append_all(journal, requests(bodies, batch, count)), count)
    journal.close()
    return found


def _append_all(journal: Journal, work: Iterable[Append]) -> None:
    waiting: deque[Future[tuple[int, ...]]] = deque()
    for request in work:
        if len(waiting) == IN_FLIGHT:
            waiting.popleft().result()
        waiting.append(journal.append(request))
    for answer in waiting:
        answer.result()


def _reads(folder: Path, bodies: Sequence[bytes]) -> dict[str, float]:
    journal = Journal.open(folder / "reads", retain_bytes=NO_LIMIT)
    for request in requests(bodies, 1000, READS):
        journal.append(request).result()
    drawn = (np.random.default_rng(0).integers(READS, size=READS) + 1).tolist()
    with journal.snapshot() as state:
        state.read(drawn)
        found = {
            "read copies, random": _paged(lambda start: state.read(drawn[start : start + PAGE])),
            "read copies, scan of a topic": _paged(lambda start: state.scan(TOPIC, start, PAGE)),
        }
    journal.close()
    return found


def _paged(read: Callable[[int], object]) -> float:
    """Return the microseconds for each record of pages that begin after each of these sequences."""

    def all_pages() -> None:
        for start in range(0, READS, PAGE):
            read(start)

    return _us(all_pages, READS)


def _work(folder: Path) -> float:
    journal = Journal.open(folder / "work", retain_bytes=NO_LIMIT)
    bodies = (Record(topic="work", body=b"x" * 1000),) * GROUP
    for counter in range(1, GROUPS + 1):
        receipt = Receipt(producer="work", counter=counter)
        journal.append(Append(records=bodies, receipt=receipt)).result()
    found = _us(lambda: [_take_and_complete(journal, n + 1) for n in range(GROUPS)], GROUPS * GROUP)
    journal.close()
    return found


def _take_and_complete(journal: Journal, counter: int) -> None:
    request = Take(
        consumer="bench",
        topics=("work",),
        member="0",
        incarnation="0",
        held=(),
        limit=GROUP,
        lease_s=60.0,
        wait_s=0.0,
    )
    records = journal.take(request).result().records
    journal.complete(
        Complete(
            consumer="bench",
            member="0",
            incarnation="0",
            sequences=tuple(record.sequence for record in records),
            outputs=(Record(topic="result", body=b"y" * 1000),) * len(records),
            receipt=Receipt(producer="0", counter=counter),
        )
    ).result()


def _us(call: Callable[[], object], count: int) -> float:
    begun = time.process_time()
    call()
    return _us_since(begun, count)


def _us_since(begun: float, count: int) -> float:
    return 1e6 * (time.process_time() - begun) / count


def _table(rows: Sequence[Row]) -> Table:
    cells = [
        (row.measure, f"{row.here_us:.2f}", f"{row.beside_us:.2f}", f"{row.ratio:.3f}")
        for row in rows
    ]
    headings = ("CPU microseconds a record", "here", "beside", "here / beside")
    return output.table(f"The journal, {BODY_BYTES // 1000} kB records", headings, cells)


if __name__ == "__main__":
    main(sys.argv[1:])
