"""Cuts the power at many places of a recorded workload, and asks what is left.

What each level promises, and thus what a cut must leave:

- ``power``: the journal opens, with every record that was acknowledged before the cut.
- ``process``: the journal opens, with the state at the last flush that was finished; a flush ends
  at most `SYNC_S` and its own duration after it was due. Here: everything that was acknowledged
  before the flush before that, because a trace does not show when a flush took its state.
- At both levels the journal is a prefix of what was written, in its order: no record without those
  before it, no part of a write, no effect without the record that it finished or twice.
- ``files``: versions, checkpoints, copies of the journal, `config.yaml` and `run.json` are there
  once written, and complete or absent at any time.
"""

import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Literal

import msgspec

from coevolve.journal.mark import MARK_FILE
from coevolve.journal.synced_file import SYNCED_FILE
from tests.journal_witness import Witness
from tests.powercuts.checking import WHOLE, Question
from tests.powercuts.images import Disk
from tests.powercuts.trace import Kind, Recording, Trace, compiled, traced
from tests.powercuts.workload import Life

Level = Literal["process", "power", "files"]

PLACE = "place"
"""Folder of the workload, below the root of the trace."""


class Cuts(msgspec.Struct, frozen=True, kw_only=True):
    """What the cuts of one level left."""

    level: Level
    cuts: int
    whole: int
    """Cuts after which the promise held."""

    events: int
    acknowledged: int
    """Answers before the cuts, all cuts together."""

    undone: int
    """Those that the promise does not cover."""

    faults: dict[str, int]
    """What was wrong, and how often."""


def cut(
    level: Level, cuts: int, *, lives: int, life_s: float, seed: int, place: Path, images: Path
) -> Cuts:
    """Record a workload of several processes, and cut its power at ``cuts`` places.

    The workload runs in the folder ``place``, and the disks are written into ``images``.
    Raises OSError or CalledProcessError if there is no C compiler.
    """
    chance = random.Random(seed)
    root = place / "root"
    root.mkdir()
    trace = _recorded(level, lives, life_s, chance, root, place)
    _compare(trace, root, place / "all")
    heard, flushes = _heard(trace), _finished_flushes(trace)
    found: Counter[str] = Counter()
    acknowledged = undone = 0
    disk = Disk(trace)
    with _checker() as checker:
        for at in sorted(chance.choices(range(len(trace.events)), k=cuts)):
            disk.advance(at)
            folder = images / "cut"
            folder.mkdir()
            disk.write(folder, chance)
            lines = [line for when, line in heard if when < at]
            safe = _promised(flushes, level, at)
            promised = sum(when < safe for when, _ in heard)
            found[_ask(checker, folder / PLACE, level, lines, promised)] += 1
            answers = [not line.startswith("sent") for line in lines]
            acknowledged += sum(answers)
            undone += sum(answers[promised:])
            shutil.rmtree(folder)
    return Cuts(
        level=level,
        cuts=cuts,
        whole=found.pop(WHOLE, 0),
        events=len(trace.events),
        acknowledged=acknowledged,
        undone=undone,
        faults=dict(found),
    )


def _recorded(
    level: Level, lives: int, life_s: float, chance: random.Random, root: Path, place: Path
) -> Trace:
    """Run the workload; each process but the last is killed or ends, in turn."""
    library = compiled(place)
    witness = Witness()
    file = place / "trace"
    recording = Recording(root, file)
    trace = Trace([])
    for number in range(lives if level != "files" else 1):
        life = Life(folder=str(root / PLACE), level=level, unanswered=witness.unanswered())
        told = msgspec.json.encode(life).decode()
        command = [sys.executable, "-m", "tests.powercuts.workload", told]
        with traced(library, command, root=root, file=file) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline() == "open\n", "the workload did not start"
            time.sleep(life_s * chance.uniform(0.5, 1.5))
            if number % 2 == 0 and number < lives - 1:
                process.send_signal(signal.SIGKILL)
            process.stdin.close()
        witness = Witness()
        trace = recording.trace()
        witness.hear([line for _, line in _heard(trace)])
    return trace


MAPPED = ("lock.mdb", MARK_FILE)
"""Files that are written by memory, which is not traced; on the disk they hold what they like."""


def _compare(trace: Trace, root: Path, replayed: Path) -> None:
    """Raise AssertionError if the trace lacks anything that was done."""
    disk = Disk(trace)
    disk.advance(len(trace.events))
    disk.write_all(replayed)
    there = {path.relative_to(root): path for path in root.rglob("*") if path.name not in MAPPED}
    for name, path in there.items():
        assert (replayed / name).is_dir() == path.is_dir(), f"{name} was not traced"
        if path.is_file():
            assert (replayed / name).read_bytes() == path.read_bytes(), f"{name}: traced otherwise"


def _heard(trace: Trace) -> list[tuple[int, str]]:
    return [(at, event.name) for at, event in enumerate(trace.events) if event.kind == Kind.MARK]


def _finished_flushes(trace: Trace) -> list[int]:
    """Return the places at which the journal had noted a state that is on the disk."""
    return [
        trace.end(event)
        for event in trace.events
        if event.kind == Kind.WRITE and event.name == f"{PLACE}/{SYNCED_FILE}"
    ]


def _promised(flushes: list[int], level: Level, at: int) -> int:
    """Return the place before which every answer has to hold."""
    if level != "process":
        return at
    finished = [end for end in flushes if end < at]
    return finished[-2] if len(finished) > 1 else 0


def _checker() -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.powercuts.checking"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _ask(
    checker: "subprocess.Popen[str]", folder: Path, level: Level, lines: list[str], promised: int
) -> str:
    assert checker.stdin is not None
    assert checker.stdout is not None
    question = Question(
        folder=str(folder),
        durability=None if level == "files" else level,
        heard=lines,
        promised=promised,
    )
    checker.stdin.write(msgspec.json.encode(question).decode() + "\n")
    checker.stdin.flush()
    return checker.stdout.readline().strip().replace(str(folder), "FOLDER")
