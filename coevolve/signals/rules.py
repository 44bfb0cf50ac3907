"""The type of rules, and how their findings become signals.

A rule is a function of the settings, the history including the newest visit, and that visit. It
yields findings lazily, strongest first.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from coevolve.signals.history import History
from protocols.evolution import Anything, GroupSummary, OnPattern, OnTask, Signal, SignalKind
from protocols.evolution_config import SignalsConfig

MOST_PER_VISIT = 2
"""Maximum number of signals of one kind per visit; weaker findings must fire again."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One firing of a rule."""

    about: OnTask | OnPattern
    score: float
    """0..1"""

    rule: str
    """The rule, its parameters and its input values, for readers."""

    evidence: tuple[int, ...]


def signal_of(
    kind: SignalKind, number: int, finding: Finding, *, group: int, version: int
) -> Signal:
    return Signal(
        signal_id=f"{kind}-g{group}-{number}",
        kind=kind,
        about=finding.about,
        score=finding.score,
        rule=finding.rule,
        evidence=finding.evidence,
        policy_version=version,
    )


Rule = Callable[[SignalsConfig, History, GroupSummary], Iterator[Finding]]


LastSignals = dict[tuple[SignalKind, OnTask | OnPattern | Anything], int]
"""Policy version of the last signal of a kind about something; the newest signal is last."""


class CoolDown:
    """Keeps a rule from repeating a signal while the policy has hardly changed."""

    def __init__(self, versions: int) -> None:
        """Suppress repetitions for ``versions`` policy versions after a signal; 0 for none."""
        self._versions = versions
        self._newest = 0
        self._last: LastSignals = {}

    @property
    def state(self) -> LastSignals:
        return self._last

    @state.setter
    def state(self, last: LastSignals) -> None:
        self._last = last
        self._newest = max(last.values(), default=0)

    def start(self, signal: Signal) -> None:
        key = (signal.kind, signal.about)
        self._last[key] = max(signal.policy_version, self._last.pop(key, 0))
        self._newest = max(self._newest, signal.policy_version)
        self._forget()

    def _forget(self) -> None:
        """Forget the oldest signals that can silence no other.

        A group may be older than the newest signal, but by far less than another cool-down.
        """
        while self._last:
            key, version = next(iter(self._last.items()))
            if version > self._newest - 2 * max(self._versions, 1):
                return
            del self._last[key]

    def silences(
        self, kind: SignalKind, about: OnTask | OnPattern | Anything, version: int
    ) -> bool:
        """Return whether an equal signal was raised less than the cool-down ago."""
        last = self._last.get((kind, about))
        return last is not None and abs(version - last) < self._versions
