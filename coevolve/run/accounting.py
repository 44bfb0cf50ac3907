"""Where the CPU time of a run goes: model, simulators, and everything else.

*What is covered*: every process of this machine that descends from the launching one, so the whole
local Ray cluster. *What is not covered*: processes that died in between, and other machines.
"""

from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class CpuShares:
    """CPU seconds between two moments."""

    model_s: float
    simulator_s: float
    rest_s: float

    @property
    def rest_share(self) -> float:
        """Share of Ray, journal and messages in all CPU time, 0..1."""
        total = self.model_s + self.simulator_s + self.rest_s
        return self.rest_s / total if total > 0 else 0.0


@dataclass(frozen=True)
class CpuReading:
    """Totals since the processes started."""

    all_s: float
    model_s: float
    simulator_s: float

    def until(self, later: "CpuReading") -> CpuShares:
        """Return what was used between this reading and ``later``."""
        model = max(0.0, later.model_s - self.model_s)
        simulator = max(0.0, later.simulator_s - self.simulator_s)
        return CpuShares(
            model_s=model,
            simulator_s=simulator,
            rest_s=max(0.0, later.all_s - self.all_s - model - simulator),
        )


def all_cpu_s() -> float:
    """Return the CPU seconds of this process and its living descendants."""
    this = psutil.Process()
    total = 0.0
    for process in (this, *this.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
