"""The starts of a run, the first one and its resumptions, and what all of them used."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from coevolve.journal.codec import topics_of
from protocols.control import RunResumed, RunStarted, StartMeasured
from protocols.journal import Message

TOPICS = topics_of(RunStarted, RunResumed, StartMeasured)


@dataclass(frozen=True)
class CpuShares:
    """CPU seconds between two readings."""

    model_s: float
    simulator_s: float
    rest_s: Mapping[str, float]
    """CPU seconds outside of models and simulators, by part, Ray and the launcher included."""

    @property
    def rest_share(self) -> float:
        """Share of Ray, journal and messages in all CPU time, in [0, 1]."""
        rest = sum(self.rest_s.values())
        total = self.model_s + self.simulator_s + rest
        return rest / total if total > 0 else 0.0


@dataclass
class Starts:
    """The starts so far; `fold` takes the records in journal order.

    To fold the newest record once more changes nothing.
    """

    number: int = 0
    measured: int = 0
    """Starts with a record of what they used: not those that were killed early."""

    earlier: StartMeasured | None = None
    """What all starts but the newest used; None without a record."""

    newest: StartMeasured | None = None

    @property
    def total(self) -> StartMeasured | None:
        """What all measured starts used; None if there is none."""
        if self.earlier is None or self.newest is None:
            return self.newest or self.earlier
        return _sum(self.earlier, self.newest)

    @property
    def cpu(self) -> CpuShares | None:
        """The CPU time of all measured starts; None if there is none."""
        if (used := self.total) is None:
            return None
        return CpuShares(
            model_s=used.model_cpu_s, simulator_s=used.simulator_cpu_s, rest_s=used.rest_cpu_s
        )

    def fold(self, message: Message) -> None:
        match message:
            case RunStarted() | RunResumed():
                self.earlier, self.newest = self.total, None
                self.number += 1
            case StartMeasured():
                self.measured += self.newest is None
                self.newest = message
            case _:
                pass


def _sum(one: StartMeasured, other: StartMeasured) -> StartMeasured:
    return StartMeasured(
        start_s=one.start_s + other.start_s,
        training_s=one.training_s + other.training_s,
        model_cpu_s=one.model_cpu_s + other.model_cpu_s,
        simulator_cpu_s=one.simulator_cpu_s + other.simulator_cpu_s,
        rest_cpu_s=dict(Counter(one.rest_cpu_s) + Counter(other.rest_cpu_s)),
    )
