"""Measures how soon a run trains again after its learner was killed, long after a checkpoint.

For each value of ``learner.recover_every``, a run of the quickstart takes steps without any
checkpoint of ``learner.checkpoint_every``. Then its learner is killed with SIGKILL. *Next step* is
the time from there to the record of the following step, and *repeated* counts the steps that the
new process took again. *Wait* is the mean of `timing_s/save_checkpoint` before, by which
checkpoints delayed a step, and *step* the mean of `timing_s/step` of the same steps.
"""

import json
import os
import signal
import tempfile
import time
from pathlib import Path
from statistics import fmean

import msgspec
from rich.table import Table

from coevolve.journal.codec import topic_of
from coevolve.parts.logs import log_file
from protocols.learning import StepReport
from tests.bench import output
from tests.launched import LaunchedRun, launched

SETTINGS = ("arm=static", "learner.checkpoint_every=1000", "learner.steps=1000")


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table."""

    every: int
    steps: int
    """Steps before the kill."""

    repeated: int
    next_step_s: float
    wait_s: float
    step_s: float


def main(arguments: list[str]) -> None:
    """Measure, and print a table or JSON."""
    parser = output.parser_of("recovery", __doc__)
    parser.add_argument("--steps", type=int, default=17, help="steps before the kill")
    parser.add_argument("--every", default="0,1,5", help="values of learner.recover_every")
    options = parser.parse_args(arguments)
    intervals = [int(each) for each in options.every.split(",")]
    with tempfile.TemporaryDirectory() as place:
        rows = [measured(Path(place), every, options.steps) for every in intervals]
    output.show(rows, _table, as_json=options.json)


def measured(place: Path, every: int, steps: int) -> Recovery:
    """Kill the learner of a run after ``steps`` steps, and return how it recovered."""
    with launched(place, f"every-{every}", *SETTINGS, f"learner.recover_every={every}") as run:
        run.until("the steps", lambda: run.count(StepReport) >= steps)
        killed_ns = time.time_ns()
        os.kill(run.pids()["learner"], signal.SIGKILL)
        taken = run.count(StepReport)
        run.until("the next step", lambda: run.count(StepReport) > taken)
        metrics = [each.metrics for each in run.scan(StepReport)[:taken]]
        return Recovery(
            every=every,
            steps=taken,
            repeated=_repeated(run),
            next_step_s=(_recorded_ns(run, taken + 1) - killed_ns) / 1e9,
            wait_s=fmean(each["timing_s/save_checkpoint"] for each in metrics),
            step_s=fmean(each["timing_s/step"] for each in metrics),
        )


def _recorded_ns(run: LaunchedRun, step: int) -> int:
    with run.reader().snapshot() as state:
        return state.scan(topic_of(StepReport))[step - 1].time_ns


def _repeated(run: LaunchedRun) -> int:
    lines = log_file(run.directory, "learner").read_text(encoding="utf-8").splitlines()
    return sum(json.loads(line)["event"] == "step_taken_again" for line in lines)


def _table(rows: list[Recovery]) -> Table:
    headings = ("every", "steps", "repeated", "next step, s", "wait, s", "step, s")
    cells = [
        (
            str(row.every),
            str(row.steps),
            str(row.repeated),
            f"{row.next_step_s:.1f}",
            f"{row.wait_s:.3f}",
            f"{row.step_s:.2f}",
        )
        for row in rows
    ]
    return output.table("learner killed", headings, cells)
