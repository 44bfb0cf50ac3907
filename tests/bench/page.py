"""Measures the report of a long run: how long it takes to write, and what a browser needs for it.

The run is made up, and its journal is real: for each step eight requests, eight rollouts and a
summary of each of six groups, and the step's report; every 5 steps a signal with its exploration,
three candidates and a task; a score every 40 steps; 457 skills; and all metrics that the docs
explain. `coevolve report` writes the page in a process of its own; its memory counts without what
it maps of the journal's file, which the system takes back when it has to. The browser is headless
Chromium. It counts as open when its window shows the page and nothing is left to do, and then again
at each of `PLACES`, the last of them the life of a task.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from msgspec.structs import replace
from rich.console import RenderableType

from coevolve.config.load import load_config
from coevolve.history.directory import RunDirectory
from coevolve.history.metric_docs import meanings
from coevolve.history.series import STEP
from coevolve.journal.codec import encode
from coevolve.journal.journal import Journal
from coevolve.runs import starting
from protocols.evolution import OnTask, Refused
from protocols.journal import Append, Message, Receipt
from protocols.learning import Evaluation, StepReport, TaskScore, TrainedGroup
from protocols.rollouts import RolloutRequest
from tests import evolving
from tests.bench import output
from tests.browser import opened
from tests.coevolve.history.test_rollouts import rollout
from tests.commands import ROOT

GROUPS = 6
SIZE = 8
TASKS = 200
EVERY = 40
BATCH = 1000
LOOK_S = 0.02
"""Time from one look at a process's memory to the next."""

SKILLS = 457
EVOLVE = 5
"""Steps from one signal to the next."""

PLACES = ("header", "#findings", "#weaknesses", "#skills", "#metrics", "#rollouts", "#life h3")
"""Where the window is when its memory is measured."""


@dataclass(frozen=True)
class Place:
    """What a browser needs at one place of the page."""

    place: str
    seconds: float
    """From the start of loading, or from the place before."""

    heap_mb: float
    """Of JavaScript, after garbage was collected."""


@dataclass(frozen=True)
class Figures:
    """What was measured."""

    records: int
    write_s: float
    peak_mb: float
    """Largest memory of `coevolve report`, without the journal's file."""

    page_mb: float
    places: list[Place]


def metrics_of(step: int, steps: int) -> dict[str, float]:
    """Return a value of every metric, of noise around a slope."""
    noise = (step * 7919 % 1000) / 1000
    names = [name for each in meanings() for name in each.names if name != STEP]
    return {name: step / steps + noise * (1 + place) for place, name in enumerate(names)}


def records(steps: int) -> Iterator[Message]:
    """Yield the records of a run."""
    for number in range(TASKS):
        skills = tuple(f"tool_{each % SKILLS}" for each in range(3 * number, 3 * number + 3))
        yield replace(evolving.seed(f"seed-{number}"), skills=skills)
    for step in range(1, steps + 1):
        groups = range((step - 1) * GROUPS, step * GROUPS)
        for group in groups:
            yield from _group(group, step)
        yield StepReport(
            step=step,
            groups=tuple(_trained(group) for group in groups),
            weights_digest="",
            groups_consumed=step * GROUPS,
            metrics=metrics_of(step, steps),
        )
        if step % EVOLVE == 0:
            yield from _evolved(step)
        if step % EVERY == 0:
            scores = tuple(
                TaskScore(task_id=f"h{n}", turns_passed=int(n * steps < 80 * step), turns_total=1)
                for n in range(80)
            )
            yield Evaluation(version=step, scores=scores, errors=0, wall_s=1.0)


def _evolved(step: int) -> Iterator[Message]:
    """Yield a signal and what followed: of three candidates one is admitted."""
    name = f"s{step}"
    kind = "forgetting" if step % (10 * EVOLVE) == 0 else "boundary"
    flagged = OnTask(task_id=f"seed-{step * GROUPS % TASKS}")
    yield replace(evolving.signal(name, kind=kind, version=step), about=flagged)
    yield evolving.exploration(f"e-{name}", name)
    yield evolving.settled(name, candidates=3, kind=kind)
    for number in range(3):
        yield evolving.candidate(f"{name}-{number}", name)
    for number in (1, 2):
        outcome = Refused(gate="duplicate", found="0.93 like seed-1")
        yield evolving.verdict(f"{name}-{number}", name, outcome)
    yield evolving.made(f"made-{step}", f"{name}-0", name)
    yield evolving.verdict(f"{name}-0", name, evolving.admitted(f"made-{step}"))


def _group(group: int, step: int) -> Iterator[Message]:
    made = group // GROUPS // EVOLVE * EVOLVE
    task = f"made-{made}" if group % GROUPS == 0 and made else f"seed-{group % TASKS}"
    summary = replace(
        evolving.visit(task, group % (SIZE + 1), version=step), group=group, group_id=f"g{group}"
    )
    for index in range(SIZE):
        yield RolloutRequest(
            group_id=summary.group_id,
            group=group,
            index=index,
            group_size=SIZE,
            task_id=task,
            seed=index,
            policy_version_at_least=step,
        )
    for index in range(SIZE):
        yield rollout(summary, index, f"cat(file_name='{index}.txt')")
    yield summary


def _trained(group: int) -> TrainedGroup:
    return TrainedGroup(
        group_id=f"g{group}",
        group=group,
        task_id=f"seed-{group % TASKS}",
        sequences=(),
        successes=group % (SIZE + 1),
        use="policy_gradient",
    )


def make(root: Path, steps: int) -> tuple[RunDirectory, int]:
    """Write a run of so many steps; return its folder and its number of records."""
    config = load_config(ROOT / "configs/quickstart.yaml")
    directory = starting.create(root / "long", config)
    journal = Journal.open(directory.store)
    batch: list[Message] = []
    count = 0
    for message in records(steps):
        batch.append(message)
        if len(batch) == BATCH:
            count += _append(journal, batch, count)
    count += _append(journal, batch, count)
    journal.close()
    lines = (json.dumps({"step": s, **metrics_of(s, steps)}) for s in range(1, steps + 1))
    directory.metrics.write_text("\n".join(lines) + "\n")
    return directory, count


def _append(journal: Journal, batch: list[Message], before: int) -> int:
    receipt = Receipt(producer="bench", counter=before + 1)
    appended = tuple(encode(message) for message in batch)
    journal.append(Append(records=appended, receipt=receipt)).result(60)
    batch.clear()
    return len(appended)


def write(directory: RunDirectory) -> tuple[float, float]:
    """Write the report; return the seconds and the largest memory, in MB."""
    began, peak = time.perf_counter(), 0
    words = [sys.executable, "-m", "coevolve", "report", str(directory.path)]
    with psutil.Popen(words, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            memory = process.memory_info()
            peak = max(peak, memory.rss - memory.shared)
            time.sleep(LOOK_S)
    assert process.returncode == 0
    return time.perf_counter() - began, peak / 1e6


def measure(path: Path) -> list[Place]:
    """Return what a browser needs at each place of the page."""
    found: list[Place] = []
    with opened(path.as_uri()) as browser:
        devtools = browser.page.context.new_cdp_session(browser.page)
        began = browser.page.evaluate("performance.timing.navigationStart") / 1000
        for place in PLACES:
            start = time.time()
            if place == PLACES[-1]:
                browser.page.evaluate("() => document.querySelector('[href^=\"#task-\"]').click()")
            browser.page.locator(place).scroll_into_view_if_needed()
            browser.page.evaluate("new Promise((done) => requestIdleCallback(done))")
            seconds = time.time() - (began if place == PLACES[0] else start)
            devtools.send("HeapProfiler.collectGarbage")
            heap = devtools.send("Runtime.getHeapUsage")
            found.append(Place(place, seconds, heap["usedSize"] / 1e6))
    return found


def drawn(figures: Figures) -> RenderableType:
    """Return the table of the figures."""
    rows: list[tuple[str, float | None, float]] = [
        (f"write the report of {figures.records:,} records", figures.write_s, figures.peak_mb),
        ("the page", None, figures.page_mb),
        *((f"browser at {each.place}", each.seconds, each.heap_mb) for each in figures.places),
    ]
    written = [[what, output.number(s), output.number(mb)] for what, s, mb in rows]
    return output.table("A long run", ["what", "seconds", "MB"], written)


def main(arguments: Sequence[str]) -> None:
    """Print the figures."""
    parser = output.parser_of("page", __doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    chosen = parser.parse_args(arguments)
    root = Path(tempfile.mkdtemp(prefix="page"))
    try:
        directory, count = make(root, chosen.steps)
        write_s, peak_mb = write(directory)
        figures = Figures(
            records=count,
            write_s=write_s,
            peak_mb=peak_mb,
            page_mb=directory.report.stat().st_size / 1e6,
            places=measure(directory.report),
        )
        output.show(figures, drawn, as_json=chosen.json)
    finally:
        shutil.rmtree(root, ignore_errors=True)
