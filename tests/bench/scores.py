"""Compares whole quickstarts that score versions on rollout engines, and with an engine of its own.

The runs alternate, so that other work on the machine affects both alike. CPU is that of the
launcher and all processes below it; memory is the largest sum of their proportional shares (PSS),
read twice a second.
"""

import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

import msgspec
import psutil
from rich.table import Table

from protocols.learning import Evaluation
from tests.bench import output
from tests.launched import LaunchedRun, launched

LOOK_S = 0.5
ENGINES = ("rollout", "own")


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    engine: str
    first_step_s: float
    """Seconds from the start to the first step."""

    first_step_cpu_s: float
    cpu_s: float
    wall_s: float
    steps_per_min: float
    """Steps after the first one, by the time until the last one."""

    memory_mb: float
    held_out: float
    """Held-out success of the last version, 0..1."""


class _Meter:
    """CPU seconds and memory of a run's processes, also of those that have ended."""

    def __init__(self, run: LaunchedRun) -> None:
        self._run = run
        self._cpu: dict[tuple[int, float], float] = {}
        self._ended = threading.Event()
        self.memory_mb = 0.0
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    @property
    def cpu_s(self) -> float:
        """CPU seconds so far."""
        return sum(list(self._cpu.values()))

    def stop(self) -> None:
        """Look no further."""
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(LOOK_S):
            shares = 0
            for process in self._run.processes():
                with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    times = process.cpu_times()
                    self._cpu[process.pid, process.create_time()] = times.user + times.system
                    shares += process.memory_full_info().pss
            self.memory_mb = max(self.memory_mb, shares / 2**20)


def measured(engine: str, steps: int, runs: Path, number: int) -> Run:
    """Return the figures of one run of the quickstart."""
    settings = (f"learner.steps={steps}", f"evaluator.engine={engine}")
    began = time.monotonic()
    with launched(runs, f"{engine}-{number}", *settings) as run:
        meter = _Meter(run)
        run.until("the first step", lambda: run.step() >= 1, 600)
        first_s, first_cpu_s = time.monotonic() - began, meter.cpu_s
        run.until("the last step", lambda: run.step() >= steps, 1800)
        trained_s = time.monotonic() - began - first_s
        run.wait(600)
        meter.stop()
        scores = run.scan(Evaluation)[-1].scores
        return Run(
            engine=engine,
            first_step_s=first_s,
            first_step_cpu_s=first_cpu_s,
            cpu_s=meter.cpu_s,
            wall_s=time.monotonic() - began,
            steps_per_min=60 * (steps - 1) / trained_s,
            memory_mb=meter.memory_mb,
            held_out=sum(each.score for each in scores) / len(scores),
        )


def drawn(found: Sequence[Run]) -> Table:
    """Return the medians by engine, and each run."""
    rows: list[list[str]] = []
    for engine in ENGINES:
        mine = [each for each in found if each.engine == engine]
        fields = [each for each in Run.__struct_fields__ if each != "engine"]
        medians = (median(getattr(run, field) for run in mine) for field in fields)
        rows.append([engine, *(output.number(each) for each in medians)])
    headings = ("engine", "1st step, s", "CPU until then, s", "CPU, s", "s", "steps/min", "MB")
    return output.table("medians", (*headings, "held out"), rows)


def main(arguments: Sequence[str]) -> None:
    """Measure pairs of runs."""
    parser = output.parser_of("scores", __doc__)
    parser.add_argument("--pairs", type=int, default=3, help="runs of each kind")
    parser.add_argument("--steps", type=int, default=40, help="steps of a run")
    options = parser.parse_args(arguments)
    found: list[Run] = []
    with tempfile.TemporaryDirectory() as runs:
        for pair in range(options.pairs):
            order = ENGINES if pair % 2 == 0 else ENGINES[::-1]
            found += [measured(engine, options.steps, Path(runs), pair) for engine in order]
    output.show(found, drawn, as_json=options.json)
