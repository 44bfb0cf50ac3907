"""Writes records of a long run on designs, and measures how its curriculum and signals start.

The records are requests, rollouts with their testbenches, summaries and steps; nothing is sampled
or simulated. Each part is measured in a fresh process: seconds of CPU and the memory of the state,
from the newest snapshot and (*whole*) from all records.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from rich.table import Table

from coevolve.curriculum.state import curriculum_snapshots
from coevolve.environments.hdl.observer import DesignObserver
from coevolve.environments.hdl.policy.frontier import Frontier
from coevolve.journal.codec import encode
from coevolve.journal.fold import fold
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.reader import JournalReader
from coevolve.journal.snapshots import SPAN, Snapshots
from protocols.interfaces import Reader
from protocols.journal import Append, Message, Receipt
from tests.bench import output
from tests.bench.soak import Restart, measured, step_on
from tests.coevolve.environments.hdl.policy import test_frontier as frontier
from tests.design_summaries import design_summary
from tests.evolving import requested

PERIODS = 4
GROUP = 8
GROUPS_PER_STEP = 8
DESIGNS = tuple(f"design-{number}" for number in range(20))
CONFIG = frontier.config(rounds=3)
TESTBENCH = "// " + 2000 * "x"


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured at the end of a period."""

    records: int
    restarts: dict[str, Restart]


def main(arguments: list[str]) -> None:
    """Measure, and print a table or JSON."""
    if arguments[:1] == ["restart"]:
        part, folder = arguments[1], Path(arguments[2])
        sys.stdout.write(msgspec.json.encode(measured(_folded(part, folder))).decode())
        return
    parser = output.parser_of("soak-designs", __doc__)
    parser.add_argument("--records", type=int, default=300_000, help="records of the run")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-soak-") as folder:
        periods = list(_periods(Path(folder), options.records))
    output.show(periods, _table, as_json=options.json, width=160)


def _periods(folder: Path, records: int) -> Iterator[Period]:
    run = _Run(folder)
    for period in range(1, PERIODS + 1):
        while run.records < records * period // PERIODS:
            run.live()
        yield Period(
            records=run.records, restarts={part: _restarted(part, folder) for part in PARTS}
        )
    run.journal.close()


class _Run:
    """A journal, and all that parts write to it."""

    def __init__(self, folder: Path) -> None:
        self.journal = Journal.open(folder)
        self._frontier = _frontier()
        self._group = 0
        self._lived: list[tuple[int, str]] = []
        """Groups that no step has trained on, with their tasks."""

        self._writes = 0
        self._through = 0

    @property
    def records(self) -> int:
        """Return the number of records so far."""
        return self.journal.newest(())

    def live(self) -> None:
        """Write a group's whole life, and now and then snapshots."""
        number = self._group
        self._group += 1
        draw = self._frontier.task(number)
        request = msgspec.structs.replace(requested(number, draw.task_id), group_size=GROUP)
        requests = [msgspec.structs.replace(request, index=index) for index in range(GROUP)]
        self._lived.append((number, draw.task_id))
        self._say([*draw.news, *requests])
        self._say([_rollout(number, index) for index in range(GROUP)])
        root = draw.task_id.split("/")[0]
        summary = design_summary({0: 3}, group=number, version=number // GROUPS_PER_STEP, root=root)
        self._say([msgspec.structs.replace(summary.group, task_id=draw.task_id)])
        if len(self._lived) == GROUPS_PER_STEP:
            self._say([step_on(1 + number // GROUPS_PER_STEP, self._lived)])
            self._lived.clear()
        if self.records - self._through >= SPAN:
            self._through = self.records
            self._say(asyncio.run(self._due()))

    def _say(self, messages: Sequence[Message]) -> None:
        self._writes += 1
        receipt = Receipt(producer="soak", counter=self._writes)
        self.journal.append(Append(records=tuple(map(encode, messages)), receipt=receipt)).result()
        for message in messages:
            self._frontier.fold(message)

    async def _due(self) -> list[Message]:
        reader, found = LocalStore(self.journal), list[Message]()
        for of_part in PIECES.values():
            snapshots = of_part(reader)
            await snapshots.restore()
            found += await snapshots.due(self._through)
        return found


def _rollout(group: int, index: int) -> Message:
    state = frontier.hitting(*range(index))
    state = msgspec.structs.replace(state, testbench=f"{TESTBENCH}{group}/{index}")
    rollout = frontier.rollout(group, index, state)
    return msgspec.structs.replace(rollout, group_size=GROUP)


def _frontier() -> Frontier:
    return Frontier(CONFIG, [frontier.design(name) for name in DESIGNS])


class _Observed:
    """The state of signals."""

    def __init__(self) -> None:
        parts = cast("Any", None)  # what only judging needs
        self.observer = DesignObserver(CONFIG, reader=parts, catalogue=parts, simulator=parts)

    @property
    def pieces(self) -> Sequence[object]:
        return (self.observer,)

    def fold(self, message: Message) -> None:
        self.observer.recall(message)


def _curriculum(reader: Reader) -> Snapshots[Any]:
    return curriculum_snapshots(reader, CONFIG, _frontier)


def _signals(reader: Reader) -> Snapshots[Any]:
    return Snapshots(reader, "signals", DesignObserver.topics, _Observed)


PIECES: dict[str, Callable[[Reader], Snapshots[Any]]] = {
    "curriculum": _curriculum,
    "signals": _signals,
}
WHOLE = ", whole"
PARTS = tuple(part + form for part in PIECES for form in ("", WHOLE))


async def _folded(part: str, folder: Path) -> object:
    snapshots = PIECES[part.removesuffix(WHOLE)](JournalReader(folder))
    if not part.endswith(WHOLE):
        return await snapshots.folded()
    state = snapshots.new()
    await fold(snapshots.reader, snapshots.topics, state.fold)
    return state


def _restarted(part: str, folder: Path) -> Restart:
    command = [sys.executable, "-m", "tests.bench", "soak-designs", "restart", part, str(folder)]
    said = subprocess.run(command, check=True, capture_output=True).stdout
    return msgspec.json.decode(said, type=Restart)


def _table(periods: Sequence[Period]) -> Table:
    headings = ["records", *(name for part in PARTS for name in (f"{part} s", "MB"))]
    cells = [
        (
            str(period.records),
            *(
                output.number(figure)
                for part in PARTS
                for figure in (period.restarts[part].cpu_s, period.restarts[part].state_mb)
            ),
        )
        for period in periods
    ]
    return output.table("a long run on designs", headings, cells)
