"""Kills, stops and starves a run, a thousand times, and audits what it did.

A run of the quickstart with the small settings of `tests/launched.py` stands under a seeded storm:
kill -9, SIGSTOP, cut connections, a full disk and clock steps, on every one of its processes, Ray's
own and its launcher included. `coevolve launch --keep` resumes it; if that ends as well, it is
begun again, as systemd would. At the end the run stops, resumes, finishes, and is audited: by
`coevolve audit --replay`, and for processes and temporary files that it left.

*back* is the time until the part works again (for the store, until the next record; for a loss of
Ray or of the launcher, until the run has resumed), and *step* the time until the next step.
"""

import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import median

import msgspec
from rich.console import Group
from rich.table import Table
from rich.text import Text

from coevolve.commands.audit import Examined, examine
from coevolve.runs.directory import RunDirectory
from tests.bench import output
from tests.chaos.blows import Clock, Disk
from tests.chaos.population import adopt_orphans
from tests.chaos.storm import Blow, Storm
from tests.chaos.subject import Subject

DISK_MB = 1024
START_S = 180.0


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table; seconds."""

    how: str
    kind: str
    blows: int
    back_s: tuple[float, float, float]
    """Median, 95 % and maximum."""

    step_s: tuple[float, float, float]


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What a storm did."""

    seed: int
    minutes: float
    kills: int
    """Kills and stops."""

    skipped: tuple[str, ...]
    recoveries: tuple[Recovery, ...]
    audit: Examined
    faults: tuple[str, ...]
    """Everything that is wrong: of the storm, of the audit, and what was left."""


def main(arguments: list[str]) -> None:
    """Measure, print, and exit with 1 if anything is wrong."""
    parser = output.parser_of("chaos", __doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=1000, help="kills and stops")
    parser.add_argument("--minutes", type=float, default=120.0, help="most minutes of the storm")
    parser.add_argument("--pace", type=float, default=1.5, help="mean seconds between two blows")
    parser.add_argument("--log", type=Path, help="write each blow into this file")
    options = parser.parse_args(arguments)
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="chaos-") as place:
        figures = weathered(
            Path(place), options.seed, options.kills, options.minutes, options.pace, options.log
        )
    output.show(figures, _drawn, as_json=options.json)
    if figures.faults:
        sys.exit(1)


def weathered(
    place: Path, seed: int, kills: int, minutes: float, pace_s: float, log: Path | None
) -> Figures:
    """Let a storm rage over a run in ``place``, and return what it did."""
    runs, temporary = place / "runs", place / "t"
    for folder in (runs, temporary):
        folder.mkdir()
    skipped: list[str] = []
    disk, clock = _disk(runs, skipped), _clock(place, skipped)
    subject = Subject(runs, {"TMPDIR": str(temporary)} | (clock.environment() if clock else {}))
    with contextlib.ExitStack() as stack:
        say = _writer(stack, log)
        storm = Storm(subject, Random(seed), kills, minutes, pace_s, disk, clock, say)
        began = time.monotonic()
        try:
            subject.begin(resume=False)
            subject.settle_in(START_S)
            storm.rage()
            code = subject.finish(steps=3)
            left = [*subject.left(), *_files_left(temporary)]
        finally:
            subject.kill_all()
            if log is not None:
                shutil.copy(subject.output, log.with_suffix(".out"))
        audit = examine(RunDirectory(subject.directory), again=True)
    ended = [] if code == 0 else [f"the run ended with code {code}: {subject.said()}"]
    return Figures(
        seed=seed,
        minutes=(time.monotonic() - began) / 60,
        kills=sum(each.how in ("kill", "stop") for each in storm.blows),
        skipped=tuple(skipped),
        recoveries=tuple(_recoveries(storm.blows)),
        audit=audit,
        faults=(*storm.faults, *ended, *left, *audit.faults),
    )


def _disk(runs: Path, skipped: list[str]) -> Disk | None:
    try:
        return Disk(runs, DISK_MB)
    except (OSError, subprocess.CalledProcessError) as error:
        skipped.append(f"full disk: this process may not mount a file system ({error})")
    return None


def _clock(place: Path, skipped: list[str]) -> Clock | None:
    try:
        return Clock(place)
    except (OSError, subprocess.CalledProcessError) as error:
        skipped.append(f"clock steps: no C compiler ({error})")
    return None


def _writer(stack: contextlib.ExitStack, log: Path | None):
    if log is None:
        return lambda line: None
    file = stack.enter_context(log.open("w", encoding="utf-8", buffering=1))
    return lambda line: print(f"{time.monotonic():.1f} {line}", file=file)


def _files_left(temporary: Path) -> list[str]:
    """Return a line for each session of Ray and scratch folder that is left."""
    found = [*temporary.glob("ray/session_*"), *temporary.glob("coevolve-*")]
    return [f"{path}: is left" for path in sorted(found)]


def _recoveries(blows: list[Blow]) -> list[Recovery]:
    kinds: dict[tuple[str, str], list[Blow]] = {}
    for blow in blows:
        kinds.setdefault((blow.how, "" if blow.how == "cut" else blow.kind), []).append(blow)
    return [
        Recovery(
            how=how,
            kind=kind,
            blows=len(each),
            back_s=_spread([blow.back_s for blow in each if blow.back_s is not None]),
            step_s=_spread([blow.step_s for blow in each if blow.step_s is not None]),
        )
        for (how, kind), each in sorted(kinds.items())
    ]


def _spread(times: list[float]) -> tuple[float, float, float]:
    if not times:
        return (0.0, 0.0, 0.0)
    return median(times), sorted(times)[int(0.95 * (len(times) - 1))], max(times)


def _drawn(figures: Figures) -> Group:
    headings = ("blow", "on", "count", *(f"{a} {b}" for a in ("back", "step") for b in _WHAT))
    rows = [
        (
            each.how,
            each.kind,
            str(each.blows),
            *(f"{seconds:.1f}" for seconds in (*each.back_s, *each.step_s)),
        )
        for each in figures.recoveries
    ]
    journal = figures.audit.journal
    lines = [
        f"{figures.kills} kills and stops in {figures.minutes:.1f} minutes, seed {figures.seed}; "
        f"{journal.starts} starts, {journal.records} records, {journal.requests} requests, "
        f"{journal.steps} steps, {figures.audit.replayed} taken again",
        *(f"skipped: {each}" for each in figures.skipped),
        *(f"FAULT: {each}" for each in figures.faults),
        f"{len(figures.faults)} faults",
    ]
    table = output.table("seconds: median, 95 %, maximum", headings, rows, words=2)
    return Group(table, *(Text(line) for line in lines))


_WHAT = ("", "95 %", "max")
