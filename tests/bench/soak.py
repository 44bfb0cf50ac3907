"""Writes a week's records into a journal at speed, and measures a restart after each day of it.

The records are those of a run that trains: rollout requests and rollouts, group summaries, steps,
versions, scores, signals, probes, verdicts and tasks, of which a rollout is larger than usual
records; consumers take and finish requests and rollouts, and retention drops rollouts and what is
spent with them. Nothing is sampled or trained.

*Kept*: the records that the journal has. *Store*: memory and open files of the journal's process,
which stays the same for the whole week. *Opened*: the time of opening a copy of the journal in a
fresh process, and its seconds of CPU. *Disk*: the journal's file, and *used*: its pages in use.

The second table has the size of each part's newest snapshot, and the third the records of each
topic that are left.

The last table is about fresh processes that fold what a part, or ``attach status``, folds when it
starts: seconds of CPU, and the memory that the state takes. Parts with snapshots write them when
they are due, and are measured twice: *whole* reads all records.
"""

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psutil
from msgspec.structs import replace
from rich.console import Group
from rich.table import Table

from coevolve.curriculum.schedule import TOPICS as SCHEDULE_TOPICS
from coevolve.curriculum.schedule import Schedule
from coevolve.curriculum.task_pool import TOPICS as POOL_TOPICS
from coevolve.curriculum.task_pool import Pool
from coevolve.journal.codec import (
    ROLLOUTS_BY_GROUP,
    ROLLOUTS_BY_TASK,
    ROLLOUTS_BY_VERSION,
    decode_as,
    encode,
    topic_of,
)
from coevolve.journal.fold import fold
from coevolve.journal.journal import Journal
from coevolve.journal.layout import DATA_FILE
from coevolve.journal.opening import open_for_reading
from coevolve.journal.reader import JournalReader
from coevolve.journal.snapshots import SPAN, Snapshots
from coevolve.learning.guard import Guard, guard_snapshots
from coevolve.learning.recorded_checkpoints import checkpoint_snapshots
from coevolve.signals.detector import Detector
from coevolve.validation.gates import NoIndex
from coevolve.validation.ledger import Ledger
from protocols.control import StateSnapshot, UnitsBegan
from protocols.evolution import ProbeRequest
from protocols.evolution_config import SignalsConfig
from protocols.interfaces import Reader
from protocols.journal import Append, Complete, Message, Receipt, Record, Take
from protocols.learner_config import LearnerConfig
from tests.bench import output
from tests.bench.soak_readers import CONFIG, LAUNCHER, POOL, READERS, SEEDS
from tests.bench.soak_versions import version_records
from tests.evolving import (
    BODY,
    admission,
    called,
    candidate,
    exploration,
    requested,
    seed,
    settled,
    signal,
    stepped,
    visit,
)
from tests.pieces import State

DAYS = 7
GROUP = 8
GROUPS_PER_STEP = 8
GROUPS_PER_TASK = 16
"""Groups for each task that the loop makes."""

SPREAD = 40_503
"""Spreads the groups over the newest tasks that the loop made."""

TOOLS = ("cd", "ls", "mv")
PAGES = ("branch_pages", "leaf_pages", "overflow_pages")

Kind = TypeVar("Kind")


class Day(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured at the end of a day."""

    day: int
    records: int
    kept: int
    store_mb: float
    store_files: int
    opened: "Opened"
    disk_mb: float
    restarts: dict[str, "Restart"]
    """Empty without restarts."""

    snapshots_kb: dict[str, float]
    """Part -> size of its newest snapshot."""

    topics: dict[str, int]
    """Topic -> records that are left."""


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """What a fresh process needs to open the journal."""

    wall_s: float
    cpu_s: float
    used_mb: float
    """Pages in use."""


class Restart(msgspec.Struct, frozen=True, kw_only=True):
    """What a fresh process needs to have a part's state again."""

    cpu_s: float
    state_mb: float


def main(arguments: list[str]) -> None:
    """Measure, and print a table or JSON."""
    if arguments and arguments[0] in CHILDREN:
        said = CHILDREN[arguments[0]](Path(arguments[1]), *arguments[2:])
        sys.stdout.write(msgspec.json.encode(said).decode())
        return
    parser = output.parser_of("soak", __doc__)
    parser.add_argument("--records", type=int, default=2_000_000, help="records of the week")
    parser.add_argument("--kilobytes", type=int, default=4, help="size of a rollout")
    parser.add_argument("--retain-mb", type=int, default=256, help="rollouts that are kept")
    parser.add_argument(
        "--retain-records", type=int, default=1000, help="records of each other topic that are kept"
    )
    parser.add_argument(
        "--no-restarts",
        dest="restarts",
        action="store_false",
        help="measure no restarts of parts, which take most of the time",
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-soak-") as folder:
        days = list(_week(Path(folder), options))
    output.show(days, _tables, as_json=options.json, width=180)


def _week(folder: Path, options: argparse.Namespace) -> Iterator[Day]:
    run = _Run(folder, options)
    for day in range(1, DAYS + 1):
        run.write_until(options.records * day // DAYS)
        yield run.measured(day)
    run.close()


class _Run:
    """A journal, and all that parts write to it."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self._folder = folder
        self._body = b"." * (options.kilobytes * 1000)
        self._options = options
        self._counter = 0
        self._groups = count(GROUPS_PER_STEP)
        self._made = 0
        self._lived: list[tuple[int, str]] = []
        """Groups that no step has trained on, with their tasks."""

        self._through = 0
        self._journal = self._open()
        self._write([encode(seed(f"seed-{number}")) for number in range(SEEDS)])

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    def write_until(self, records: int) -> None:
        """Let groups live until the journal has this many records."""
        while (newest := self._journal.newest(())) < records:
            self._live(next(self._groups))
            if newest - self._through >= SPAN:
                self._through = newest
                self._write_snapshots(newest)

    def measured(self, day: int) -> Day:
        """Measure, while the journal is open."""
        copy = self._folder / "copy"
        self._journal.checkpoint(copy)
        opened = _child("opened", copy, kind=Opened)
        parts = PARTS if self._options.restarts else ()
        measured = Day(
            day=day,
            records=self._journal.newest(()),
            kept=sum(self._journal.statistics().result().topics.values()),
            store_mb=_own_mb(),
            store_files=psutil.Process().num_fds(),
            opened=opened,
            disk_mb=(self._folder / DATA_FILE).stat().st_size / 1e6,
            restarts={part: _child("restart", self._folder, part, kind=Restart) for part in parts},
            snapshots_kb=self._snapshots_kb(),
            topics=dict(self._journal.statistics().result().topics),
        )
        shutil.rmtree(copy)
        return measured

    def _snapshots_kb(self) -> dict[str, float]:
        """Return the size of each part's newest snapshot."""
        with self._journal.snapshot() as state:
            records = state.scan(topic_of(StateSnapshot), limit=1 << 20)
        return {decode_as(each, StateSnapshot).part: len(each.body) / 1e3 for each in records}

    def _write_snapshots(self, through: int) -> None:
        """Write the parts' snapshots, which another process makes, as in a run."""
        self._write(_child("snapshots", self._folder, str(through), kind=list[Record]))

    def _live(self, group: int) -> None:
        """Write a group's whole life, and now and then a step and a task."""
        is_seed = group % 2 or not self._made
        task = f"seed-{group % SEEDS}" if is_seed else self._drawn(group)
        self._lived.append((group, task))
        version = group // GROUPS_PER_STEP
        request = requested(group, task, version)
        self._write([encode(replace(request, index=index)) for index in range(GROUP)])
        keys = (
            (ROLLOUTS_BY_TASK, task),
            (ROLLOUTS_BY_GROUP, f"g{group}"),
            (ROLLOUTS_BY_VERSION, str(version)),
        )
        rollouts = [Record(topic="rollout", body=self._body, keys=keys)] * GROUP
        self._finish("rollout", "rollout_request", rollouts)
        messages: list[Message] = [visit(task, group * 7 % 9, version)]
        if group % GROUPS_PER_STEP == 0:
            messages.append(step_on(version, self._lived))
            self._lived.clear()
            messages += version_records(version)
        if group % GROUPS_PER_TASK == 0:
            messages += self._task(task)
        self._finish("signals", "rollout", [encode(message) for message in messages])

    def _drawn(self, group: int) -> str:
        """Return a task that the pool has."""
        return f"m{self._made - 1 - group * SPREAD % min(self._made, POOL)}"

    def _task(self, about: str) -> list[Message]:
        number = self._made
        self._made += 1
        made, cause = f"c{number}", f"s{number}"
        probe = ProbeRequest(
            probe_id=f"p{number}",
            candidate_id=made,
            body=BODY,
            rollouts=GROUP,
            seed=number,
            policy_version_at_least=0,
        )
        return [
            signal(cause, about),
            called(cause),
            exploration(f"e-{cause}", cause),
            candidate(made, cause),
            probe,
            *admission(made, cause, f"m{number}"),
            settled(cause, 1),
        ]

    def _finish(self, consumer: str, topic: str, outputs: Sequence[Record]) -> None:
        take = Take(
            consumer=consumer,
            topics=(topic,),
            member=consumer,
            incarnation="soak",
            held=(),
            limit=GROUP,
            lease_s=60.0,
            wait_s=0.0,
        )
        taken = self._journal.take(take).result().records
        sequences = tuple(record.sequence for record in taken)
        self._write([encode(UnitsBegan(consumer=consumer, member=consumer, sequences=sequences))])
        self._journal.complete(
            Complete(
                consumer=consumer,
                member=consumer,
                incarnation="soak",
                sequences=sequences,
                outputs=tuple(outputs),
                receipt=self._receipt(),
            )
        ).result()

    def _write(self, records: Sequence[Record]) -> None:
        self._journal.append(Append(records=tuple(records), receipt=self._receipt())).result()

    def _receipt(self) -> Receipt:
        self._counter += 1
        return Receipt(producer="soak", counter=self._counter)

    def _open(self) -> Journal:
        return Journal.open(
            self._folder,
            retain_bytes=self._options.retain_mb << 20,
            retain_records=self._options.retain_records,
        )


def step_on(step: int, groups: Sequence[tuple[int, str]]) -> Message:
    """Return a step that trains on groups, each a number and a task."""
    report = stepped(step, *(task for _, task in groups))
    numbered = [
        msgspec.structs.replace(trained, group=group)
        for trained, (group, _) in zip(report.groups, groups, strict=True)
    ]
    return msgspec.structs.replace(report, groups=tuple(numbered))


def _validator(reader: Reader) -> Snapshots[Ledger]:
    return Ledger(reader, NoIndex(), CONFIG.pool.remembered).snapshots


def _signals(reader: Reader) -> Snapshots[State]:
    def new() -> State:
        return State((Detector(SignalsConfig(), TOOLS, CONFIG.remembered_tasks),))

    return Snapshots(reader, "signals", ("group_summary", "signal"), new)


def _curriculum(reader: Reader) -> Snapshots[State]:
    topics = {*POOL_TOPICS, *SCHEDULE_TOPICS}
    return Snapshots(
        reader, "curriculum", sorted(topics), lambda: State((Schedule.of(CONFIG), Pool(CONFIG)))
    )


def _guard(reader: Reader) -> Snapshots[Guard]:
    return guard_snapshots(reader, LearnerConfig())


SNAPSHOTTED: dict[str, Callable[[Reader], Snapshots[Any]]] = {
    "validator": _validator,
    "signals": _signals,
    "curriculum": _curriculum,
    "learner": checkpoint_snapshots,
    "guard": _guard,
    **LAUNCHER,
}
WHOLE = ", whole"
PARTS = (*(part + form for part in SNAPSHOTTED for form in ("", WHOLE)), *READERS)


async def _folded(part: str, reader: Reader) -> object:
    """Return what a part, or a command of `attach`, reads when it starts."""
    if part in READERS:
        return await READERS[part](reader)
    snapshots = SNAPSHOTTED[part.removesuffix(WHOLE)](reader)
    if not part.endswith(WHOLE):
        return await snapshots.folded()
    state = snapshots.new()
    await fold(snapshots.reader, snapshots.topics, state.fold)
    return state


def opened(folder: Path) -> Opened:
    """Open the journal, which no writer has open, in this process."""
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    env, tables = open_for_reading(folder)
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    with env, env.begin() as txn:
        stats = [txn.stat(table) for table in tables]
    pages = sum(each[kind] for each in stats for kind in PAGES)
    return Opened(cpu_s=cpu_s, wall_s=wall_s, used_mb=pages * stats[0]["psize"] / 1e6)


def snapshots(folder: Path, through: str) -> list[Record]:
    """Return the records of the snapshots that are due at sequence ``through``."""

    async def due() -> list[Record]:
        reader = JournalReader(folder)
        records: list[Record] = []
        for of_part in SNAPSHOTTED.values():
            part = of_part(reader)
            await part.restore()
            records += map(encode, await part.due(int(through)))
        return records

    return asyncio.run(due())


def restart(folder: Path, part: str) -> Restart:
    """Fold what a part folds when it starts, in this process."""
    return measured(_folded(part, JournalReader(folder)))


def measured(folding: Coroutine[Any, Any, object]) -> Restart:
    """Return what a fold of the journal takes in this process."""
    before_mb, started_s = _own_mb(), time.process_time()
    state = asyncio.run(folding)
    cpu_s = time.process_time() - started_s
    grown_mb = _own_mb() - before_mb
    del state
    return Restart(cpu_s=cpu_s, state_mb=grown_mb)


CHILDREN: Mapping[str, Callable[..., Any]] = {
    "opened": opened,
    "snapshots": snapshots,
    "restart": restart,
}
"""What this file does in processes of their own, by the command's first argument."""


def _child(name: str, folder: Path, *more: str, kind: type[Kind]) -> Kind:
    """Return what one of `CHILDREN` returns in a process of its own."""
    command = [sys.executable, "-m", "tests.bench", "soak", name, str(folder), *more]
    said = subprocess.run(command, check=True, capture_output=True).stdout
    return msgspec.json.decode(said, type=kind)


def _own_mb() -> float:
    """Return this process's memory without the journal's mapped pages."""
    memory = psutil.Process().memory_info()
    return (memory.rss - memory.shared) / 1e6


def _tables(days: Sequence[Day]) -> Group:
    restarts = [_restarts_table(days)] if any(day.restarts for day in days) else []
    return Group(
        _journal_table(days),
        _columns("newest snapshots, kB", days, lambda day: day.snapshots_kb),
        _columns("records left", days, lambda day: day.topics),
        *restarts,
    )


def _columns(
    title: str, days: Sequence[Day], numbers: Callable[[Day], Mapping[str, float]]
) -> Table:
    """Return a table with a column for each day."""
    names = sorted({name for day in days for name in numbers(day)})
    cells = [(name, *(output.number(numbers(day).get(name, 0)) for day in days)) for name in names]
    return output.table(title, ("", *(f"day {day.day}" for day in days)), cells)


def _journal_table(days: Sequence[Day]) -> Table:
    headings = ("day", "records", "kept", "store MB", "files", "opened s", "CPU s", "disk MB")
    cells = [
        (
            *(str(each) for each in (day.day, day.records, day.kept)),
            output.number(day.store_mb),
            str(day.store_files),
            *map(output.number, (day.opened.wall_s, day.opened.cpu_s)),
            *map(output.number, (day.disk_mb, day.opened.used_mb)),
        )
        for day in days
    ]
    return output.table("a week", (*headings, "used MB"), cells)


def _restarts_table(days: Sequence[Day]) -> Table:
    cells = [
        (
            str(day.day),
            *(
                f"{output.number(each.cpu_s)} s, {output.number(each.state_mb)} MB"
                for part in PARTS
                for each in (day.restarts[part],)
            ),
        )
        for day in days
    ]
    return output.table("restarts", ("day", *PARTS), cells)
