"""Kills, stops and starves a run, a thousand times, and audits what it did.

A run of the quickstart with the small settings of `tests/launched.py` stands under a seeded storm:
kill -9, SIGSTOP, cut connections, a full disk and clock steps, on every one of its processes, Ray's
own and its launcher included. `coevolve launch --keep` resumes it; if that ends as well, it is
begun again, as systemd would. At the end the run stops, resumes, finishes, and is audited: by
`coevolve audit --replay`, and for processes and temporary files that it left.

The blows that came when the run was whole have a table of their own, because a part takes longer
beside others that also start. *Works* is the time until the part works again (for the store, until
the next record; for a loss of Ray or of the launcher, until the run has resumed), and *step* the
time until the next step.
"""

import argparse
import contextlib
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import msgspec
from rich.console import Group
from rich.table import Table
from rich.text import Text

from coevolve.commands.audit import Examined, examine
from coevolve.history.directory import RunDirectory
from tests.bench import output
from tests.chaos.blows import Clock, Disk
from tests.chaos.population import adopt_orphans
from tests.chaos.storm import WEIGHTS, Blow, Storm
from tests.chaos.subject import Subject

DISK_MB = 1024
START_S = 900.0


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table; seconds."""

    whole: bool
    """Whether the run was whole when these blows came."""

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
    parser.add_argument("--on", default=",".join(WEIGHTS), help="kinds of processes to strike")
    parser.add_argument("--pace", type=float, default=1.0, help="mean seconds between two blows")
    parser.add_argument("--log", type=Path, help="write each blow into this file")
    options = parser.parse_args(arguments)
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="chaos-") as place:
        figures = weathered(Path(place), options)
    output.show(figures, _drawn, as_json=options.json)
    if figures.faults:
        sys.exit(1)


def weathered(place: Path, options: argparse.Namespace) -> Figures:
    """Let a storm rage over a run in ``place``, and return what it did."""
    runs, temporary = place / "runs", place / "t"
    for folder in (runs, temporary):
        folder.mkdir()
    skipped: list[str] = []
    with contextlib.ExitStack() as stack:
        disk, clock = _disk(runs, skipped, stack), _clock(place, skipped)
        subject = Subject(runs, {"TMPDIR": str(temporary)} | (clock.environment() if clock else {}))
        stack.callback(_ended, subject, options.log)
        storm = Storm(
            subject=subject,
            seed=options.seed,
            kills=options.kills,
            minutes=options.minutes,
            pace_s=options.pace,
            disk=disk,
            clock=clock,
            weights={kind: WEIGHTS[kind] for kind in options.on.split(",")},
            say=_writer(stack, options.log),
            tell=_tell,
        )
        began = time.monotonic()
        subject.begin(resume=False)
        subject.settle_in(START_S)
        storm.rage()
        minutes = (time.monotonic() - began) / 60
        ended = subject.finish(steps=3)
        faults = [*storm.faults, *ended, *subject.left(), *_files_left(temporary)]
        audit = examine(RunDirectory(subject.directory), again=True)
    return Figures(
        seed=options.seed,
        minutes=minutes,
        kills=sum(each.how in ("kill", "stop") for each in storm.blows),
        skipped=tuple(skipped),
        recoveries=tuple(_recoveries(storm.blows)),
        audit=audit,
        faults=(*faults, *audit.faults),
    )


def _ended(subject: Subject, log: Path | None) -> None:
    """End every process, and keep the output beside the log."""
    subject.kill_all()
    if log is not None:
        shutil.copy(subject.output, log.with_suffix(".out"))


def _disk(runs: Path, skipped: list[str], stack: contextlib.ExitStack) -> Disk | None:
    try:
        disk = Disk(runs, DISK_MB)
    except (OSError, subprocess.CalledProcessError) as error:
        skipped.append(f"full disk: this process may not mount a file system ({error})")
        return None
    stack.callback(disk.unmount)
    return disk


def _clock(place: Path, skipped: list[str]) -> Clock | None:
    try:
        return Clock(place)
    except (OSError, subprocess.CalledProcessError) as error:
        skipped.append(f"clock steps: no C compiler ({error})")
    return None


def _writer(stack: contextlib.ExitStack, log: Path | None) -> Callable[[str], None]:
    if log is None:
        return lambda line: None
    file = stack.enter_context(log.open("w", encoding="utf-8", buffering=1))

    def write(line: str) -> None:
        file.write(f"{time.monotonic():.1f} {line}\n")

    return write


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _files_left(temporary: Path) -> list[str]:
    """Return a line for each session of Ray and scratch folder that is left."""
    found = [*temporary.glob("cvray-*"), *temporary.glob("coevolve-*")]
    return [f"{path}: is left" for path in sorted(found)]


def _recoveries(blows: list[Blow]) -> list[Recovery]:
    kinds: dict[tuple[bool, str, str], list[Blow]] = {}
    for blow in blows:
        kind = blow.kind if blow.how in ("kill", "stop") else ""
        kinds.setdefault((not blow.whole, blow.how, kind), []).append(blow)
    return [
        Recovery(
            whole=not amid,
            how=how,
            kind=kind,
            blows=len(each),
            back_s=_spread([blow.back_s for blow in each if blow.back_s is not None]),
            step_s=_spread([blow.step_s for blow in each if blow.step_s is not None]),
        )
        for (amid, how, kind), each in sorted(kinds.items())
    ]


def _spread(times: list[float]) -> tuple[float, float, float]:
    if not times:
        return (0.0, 0.0, 0.0)
    return median(times), sorted(times)[math.ceil(0.95 * len(times)) - 1], max(times)


def _drawn(figures: Figures) -> Group:
    journal = figures.audit.journal
    lines = [
        f"{figures.kills} kills and stops in {figures.minutes:.1f} minutes, seed {figures.seed}; "
        f"{journal.starts} starts, {journal.records} records, {journal.requests} requests, "
        f"{journal.steps} steps, {figures.audit.replayed} taken again",
        *(f"skipped: {each}" for each in figures.skipped),
        *(f"FAULT: {each}" for each in figures.faults),
        f"{len(figures.faults)} faults",
    ]
    return Group(
        _table(figures, "when the run was whole", whole=True),
        _table(figures, "amid other recoveries", whole=False),
        *(Text(line) for line in lines),
    )


def _table(figures: Figures, when: str, *, whole: bool) -> Table:
    rows = [
        (f"{each.how} {each.kind}", str(each.blows), _times(each.back_s), _times(each.step_s))
        for each in figures.recoveries
        if each.whole == whole
    ]
    return output.table(
        f"{when}: seconds until it works again and until the next step: median, 95 %, maximum",
        ("blow", "count", "works", "step"),
        rows,
        words=1,
    )


def _times(spread: tuple[float, float, float]) -> str:
    return "  ".join(f"{seconds:.1f}" for seconds in spread)
