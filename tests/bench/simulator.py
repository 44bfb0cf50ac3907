"""Measures BFCL's simulators in process, through the child process, and through the Ray actor.

All three play the same ground truths of the ``base`` category in one run. *In process* is a plain
loop. The other two use a `SimulatorPool` with one worker and ``--concurrent`` sessions at a time,
so that commands are batched as in a run. *Resets* include the first call, because the pool sends it
with the reset, and both worlds, the policy's and the reference's. *Alone* is the round trip of a
command that is alone in its batch. CPU time is that of caller, actor and child together. *Start* is
the time to the first answer, without that of the Ray cluster.
"""

import asyncio
import logging
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

import msgspec
import psutil
import ray
from rich.table import Table

from actors.home import Home
from actors.simulator import RemoteSimulator, SimulatorActor
from coevolve.environments.tools.bfcl.catalogue import load_tasks
from coevolve.environments.tools.bfcl.environment import Bfcl
from coevolve.environments.tools.bfcl.stock import CLASSES
from coevolve.environments.tools.interfaces import SimulatorWorker
from coevolve.environments.tools.session import Session
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.task import ToolTask, read_body
from coevolve.environments.tools.toolsets import tool_set
from coevolve.environments.tools.wire import ToolClient
from coevolve.environments.tools.worker import ToolWorker
from protocols.config import RunConfig, SimulatorConfig
from tests.bench import output

FIRST_CALL = "ready()"
"""A call of a tool that does not exist: it costs almost nothing and changes nothing."""

ALONE = 200
"""Number of round trips, of which the median is printed."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table."""

    place: str
    resets_per_s: float
    calls_per_s: float
    verdicts_per_s: float
    cpu_us: float
    """CPU microseconds per command."""

    alone_us: float
    start_s: float


class Stopwatch:
    """Counts commands by kind and their total time."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = dict.fromkeys(("reset", "call", "verdict"), 0.0)
        self._commands: dict[str, int] = dict.fromkeys(("reset", "call", "verdict"), 0)

    @contextmanager
    def timing(self, kind: str, commands: int) -> Generator[None]:
        """Count the block as ``commands`` commands of ``kind``."""
        started = time.perf_counter()
        yield
        self._seconds[kind] += time.perf_counter() - started
        self._commands[kind] += commands

    def figures(self, place: str, *, cpu_s: float, alone_us: float, start_s: float) -> Figures:
        """Return the row of the table."""
        rates = {kind: self._commands[kind] / seconds for kind, seconds in self._seconds.items()}
        return Figures(
            place=place,
            resets_per_s=rates["reset"],
            calls_per_s=rates["call"],
            verdicts_per_s=rates["verdict"],
            cpu_us=1e6 * cpu_s / sum(self._commands.values()),
            alone_us=alone_us,
            start_s=start_s,
        )


def main(arguments: list[str]) -> None:
    """Measure, and print a table or JSON."""
    parser = output.parser_of("simulator", __doc__)
    parser.add_argument("--rounds", type=int, default=5, help="times that all tasks are played")
    parser.add_argument("--concurrent", type=int, default=64, help="sessions at a time")
    options = parser.parse_args(arguments)
    bodies = [read_body(task.body) for task in load_tasks(["base"])] * options.rounds
    with tempfile.TemporaryDirectory() as folder:
        behind = asyncio.run(remote(bodies, options.concurrent, folder))
        rows = [in_process(bodies), *behind]
    output.show(rows, _table, as_json=options.json)


def in_process(bodies: Sequence[ToolTask]) -> Figures:
    """Play ``bodies`` one after the other in this process."""
    started = time.perf_counter()
    for name in CLASSES:
        tool_set(name).load()
    Session(bodies[0])
    start_s = time.perf_counter() - started
    watch = Stopwatch()
    cpu_s = time.process_time()
    for body in bodies:
        with watch.timing("reset", 1):
            session = Session(body)
            session.act(FIRST_CALL)
        for turn in body.turns:
            with watch.timing("call", len(turn.reference)):
                for call in turn.reference:
                    session.act(call)
            with watch.timing("verdict", 1):
                session.grade()
    cpu_s = time.process_time() - cpu_s
    alone_us = _median_us([_timed(lambda: session.act("pwd()")) for _ in range(ALONE)])
    return watch.figures("in process", cpu_s=cpu_s, alone_us=alone_us, start_s=start_s)


async def remote(bodies: Sequence[ToolTask], concurrent: int, folder: str) -> list[Figures]:
    """Play ``bodies`` through a child process, and through an actor with a child process.

    The actor's log goes to ``folder``.
    """
    child = ToolWorker(SimulatorConfig(), CLASSES)

    async def child_cpu_s() -> float:
        return child.cpu_s()

    rows = [await _through("child", child, child_cpu_s, bodies, concurrent)]
    await child.close()
    ray.init(
        address="local",
        num_cpus=1,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    try:
        config = RunConfig(name="bench", environment={"use": "bfcl"})
        actor: Any = SimulatorActor.remote("simulator", config, Home(folder=folder))

        async def actor_cpu_s() -> float:
            process = psutil.Process((await actor.status.remote()).pid).cpu_times()
            return process.user + process.system + await actor.cpu_s.remote()

        worker = ToolClient(RemoteSimulator(actor, Bfcl.patience_s))
        rows.append(await _through("Ray actor", worker, actor_cpu_s, bodies, concurrent))
    finally:
        ray.shutdown()
    return rows


async def _through(
    place: str,
    worker: SimulatorWorker,
    worker_cpu_s: Callable[[], Awaitable[float]],
    bodies: Sequence[ToolTask],
    concurrent: int,
) -> Figures:
    """Play ``bodies`` through a pool that has one worker."""
    pool = SimulatorPool([worker])
    started = time.perf_counter()
    await pool.reset("first", bodies[0])
    await pool.act("first", FIRST_CALL)
    start_s = time.perf_counter() - started
    watch = Stopwatch()
    cpu_s = time.process_time() + await worker_cpu_s()
    for first in range(0, len(bodies), concurrent):
        await _play(pool, watch, bodies[first : first + concurrent])
    cpu_s = time.process_time() + await worker_cpu_s() - cpu_s
    trips: list[float] = []
    for _ in range(ALONE):
        started = time.perf_counter()
        await pool.act("first", "pwd()")
        trips.append(time.perf_counter() - started)
    return watch.figures(place, cpu_s=cpu_s, alone_us=_median_us(trips), start_s=start_s)


async def _play(pool: SimulatorPool, watch: Stopwatch, bodies: Sequence[ToolTask]) -> None:
    """Play ``bodies`` concurrently, turn by turn."""
    names = [str(number) for number in range(len(bodies))]

    async def call(name: str, calls: Sequence[str]) -> None:
        for text in calls:
            await pool.act(name, text)

    async def reset(name: str, body: ToolTask) -> None:
        await pool.reset(name, body)
        await pool.act(name, FIRST_CALL)

    with watch.timing("reset", len(bodies)):
        await _together(reset(name, body) for name, body in zip(names, bodies, strict=True))
    for number in range(max(len(body.turns) for body in bodies)):
        turns = {
            name: body.turns[number].reference
            for name, body in zip(names, bodies, strict=True)
            if number < len(body.turns)
        }
        with watch.timing("call", sum(map(len, turns.values()))):
            await _together(call(name, calls) for name, calls in turns.items())
        with watch.timing("verdict", len(turns)):
            await _together(pool.grade(name) for name in turns)
    await _together(pool.release(name) for name in names)


async def _together(jobs: Iterable[Coroutine[Any, Any, object]]) -> None:
    await asyncio.gather(*jobs)


def _timed(job: Callable[[], object]) -> float:
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def _median_us(seconds: Sequence[float]) -> float:
    return 1e6 * median(seconds)


def _table(rows: Sequence[Figures]) -> Table:
    headings = [
        heading.replace("_per_", "/").replace("_", " ") for heading in Figures.__struct_fields__
    ]
    cells: list[Sequence[str]] = []
    for row in rows:
        place, *numbers = msgspec.structs.astuple(row)
        cells.append((place, *map(output.number, numbers)))
    return output.table("BFCL's simulators, ground truths of the base category", headings, cells)
