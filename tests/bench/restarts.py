"""Measures how soon each part of a run works again after it was killed, with all others at work.

A run of the quickstart with the small settings of `tests/launched.py` takes steps. Then one part
after the other is killed with SIGKILL, while the run is whole. *Back* is the time until a new
process has made the part (for the store, until the next record), and *CPU* what this process has
used by then. *Memory* is the run's, shared pages counted once (PSS).
"""

import contextlib
import os
import signal
import tempfile
import time
from pathlib import Path
from statistics import median

import msgspec
import psutil
from rich.table import Table

from protocols.learning import StepReport
from tests.bench import output
from tests.chaos.population import kind_of, made
from tests.launched import SMALL, LaunchedRun, launched

PARTS = "store,learner,rollout,synthesizer,validator,signals,curriculum,simulator"
LOOK_S = 0.02
MAX_S = 120.0


class Restart(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table: medians over the kills of one part; memory is of the whole run."""

    fork: bool
    part: str
    back_s: tuple[float, ...]
    cpu_s: float
    memory_mb: float


def main(arguments: list[str]) -> None:
    """Measure, and print a table or JSON."""
    parser = output.parser_of("restarts", __doc__)
    parser.add_argument("--parts", default=PARTS)
    parser.add_argument("--rounds", type=int, default=3, help="kills of each part")
    parser.add_argument("--fork", default="true,false", help="values of cluster.fork")
    options = parser.parse_args(arguments)
    rows: list[Restart] = []
    with tempfile.TemporaryDirectory() as place:
        for fork in options.fork.split(","):
            rows += measured(Path(place), fork == "true", options.parts.split(","), options.rounds)
    output.show(rows, _table, as_json=options.json)


def measured(place: Path, fork: bool, parts: list[str], rounds: int) -> list[Restart]:
    """Kill each part of a run ``rounds`` times, and return how it came back."""
    settings = (*SMALL, "learner.steps=100000", f"cluster.fork={str(fork).lower()}")
    with launched(place, f"fork-{fork}", *settings) as run:
        run.until("two steps", lambda: run.count(StepReport) >= 2)
        memory = _memory_mb(run)
        found = {part: [_killed(run, part) for _ in range(rounds)] for part in parts}
    return [
        Restart(
            fork=fork,
            part=part,
            back_s=tuple(sorted(back for back, _ in each)),
            cpu_s=median(cpu for _, cpu in each),
            memory_mb=memory,
        )
        for part, each in found.items()
    ]


def _killed(run: LaunchedRun, part: str) -> tuple[float, float]:
    """Kill a part; return the seconds until it is back, and the CPU seconds of that.

    Then the run takes a step.
    """
    before = _processes(run, part)
    records, began = run.newest(), time.monotonic()
    os.kill(before[0].pid, signal.SIGKILL)
    new: list[psutil.Process] = []
    while not new or (part == "store" and run.newest() == records):
        assert time.monotonic() - began < MAX_S, f"{part} did not come back"
        time.sleep(LOOK_S)
        new = [each for each in _processes(run, part) if each not in before]
    back = time.monotonic() - began
    times = new[0].cpu_times()
    steps = run.count(StepReport)
    run.until("the next step", lambda: run.count(StepReport) > steps)
    return back, times.user + times.system


def _processes(run: LaunchedRun, part: str) -> list[psutil.Process]:
    """Return the processes of a kind of part that have been made."""
    found: list[psutil.Process] = []
    for process in run.processes():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if kind_of(words, is_keeper=False) == part and made(words):
                found.append(process)
    return found


def _memory_mb(run: LaunchedRun) -> float:
    total = 0
    for process in run.processes():
        with contextlib.suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total / 1e6


def _table(rows: list[Restart]) -> Table:
    cells = [
        (
            "fork" if row.fork else "no fork",
            row.part,
            "  ".join(f"{each:.1f}" for each in row.back_s),
            f"{row.cpu_s:.1f}",
            f"{row.memory_mb:.0f}",
        )
        for row in rows
    ]
    return output.table(
        "one part killed", ("start", "part", "back, s", "CPU, s", "memory of the run, MB"), cells
    )
