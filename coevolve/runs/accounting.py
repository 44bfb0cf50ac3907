"""CPU time of a run: models, simulators and everything else, by part.

*What is covered*: the launching process and all its descendants on this machine, so the whole
local Ray cluster. *What is not covered*: processes that ended between two readings, and other
machines.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import psutil

from coevolve.history.starts import CpuShares
from protocols.control import StartMeasured
from protocols.interfaces import SupervisedPart

CLUSTER = "ray"
"""CPU time that belongs to no part of the run: Ray's own processes."""

LAUNCHER = "launch"

MEASURED_S = 60.0
"""Seconds after which a run records again what it has used, in case that it is killed."""


@dataclass(frozen=True)
class CpuReading:
    """CPU seconds since the processes started."""

    model_s: float
    simulator_s: float
    rest_s: Mapping[str, float]

    def until(self, later: "CpuReading") -> CpuShares:
        """Return the CPU seconds between this reading and ``later``.

        A part that restarted in between counts from its restart.
        """
        return CpuShares(
            model_s=max(0.0, later.model_s - self.model_s),
            simulator_s=max(0.0, later.simulator_s - self.simulator_s),
            rest_s={
                name: used - before if used >= (before := self.rest_s.get(name, 0.0)) else used
                for name, used in later.rest_s.items()
            },
        )


async def read_cpu(
    models: Sequence[SupervisedPart],
    simulators: Sequence[SupervisedPart],
    others: Sequence[SupervisedPart],
) -> CpuReading:
    """Return the CPU seconds so far. ``models`` and ``simulators`` report their own share."""
    parts = (*models, *simulators, *others)
    own = await asyncio.gather(*(part.cpu_s() for part in parts))
    statuses = await asyncio.gather(*(part.status() for part in parts))
    rest = {
        part.name: max(0.0, _tree_cpu_s(status.pid) - used)
        for part, status, used in zip(parts, statuses, own, strict=True)
    }
    rest[LAUNCHER] = _cpu_s(psutil.Process())
    accounted = sum(own) + sum(rest.values())
    rest[CLUSTER] = max(0.0, _tree_cpu_s(psutil.Process().pid) - accounted)
    return CpuReading(
        model_s=sum(own[: len(models)]),
        simulator_s=sum(own[len(models) : len(models) + len(simulators)]),
        rest_s=rest,
    )


class StartUsage:
    """The time that a start took, and the CPU time that the run used since."""

    def __init__(self, started: float, read: Callable[[], Awaitable[CpuReading]]) -> None:
        """``started`` is the monotonic time at which the start began."""
        self._started = started
        self._read = read
        self._first: CpuReading | None = None
        self._start_s = self._training_started = self._measured = 0.0
        self._all_measured = False
        """Whether the last step is taken, and what the run used until then recorded."""

    def start_ends(self) -> None:
        """Count what follows as training."""
        self._start_s = time.monotonic() - self._started

    async def training_begins(self) -> None:
        """Count CPU time from now on."""
        self._first = await self._read()
        self._training_started = self._measured = time.monotonic()

    async def measured(self, *, last: bool, now: bool) -> StartMeasured | None:
        """Return what was used until now if that is due.

        It is due once after the ``last`` step, whenever it is asked for ``now``, and every
        `MEASURED_S` seconds.
        """
        due = now or last or time.monotonic() - self._measured >= MEASURED_S
        if self._first is None or self._all_measured or not due:
            return None
        self._all_measured = last
        self._measured = time.monotonic()
        used = self._first.until(await self._read())
        return StartMeasured(
            start_s=self._start_s,
            training_s=self._measured - self._training_started,
            model_cpu_s=used.model_s,
            simulator_cpu_s=used.simulator_s,
            rest_cpu_s=dict(used.rest_s),
        )


def _tree_cpu_s(pid: int | None) -> float:
    """Return the CPU seconds of a process and its living descendants; 0 if it does not exist."""
    try:
        process = psutil.Process(pid) if pid else None
        processes = [process, *process.children(recursive=True)] if process else []
    except psutil.NoSuchProcess:
        return 0.0
    return sum(map(_cpu_s, processes))


def _cpu_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system
