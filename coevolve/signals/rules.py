"""What a rule is, and what becomes of its findings.

A rule is a function of the settings, the history with the newest visit in it, and that visit. It
yields findings, strongest first, and works them out as they are asked for.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from coevolve.signals.history import History
from protocols.evolution import GroupSummary, OnPattern, OnTask, Signal, SignalKind
from protocols.evolution_config import SignalsConfig

MOST_PER_VISIT = 2
"""Signals of one kind that one visit may raise; the weaker ones have to fire again."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A rule fired."""

    about: OnTask | OnPattern
    score: float
    """0..1"""

    rule: str
    """The rule, its parameters and what it saw, for people."""

    evidence: tuple[int, ...]


def signal_of(
    kind: SignalKind, number: int, finding: Finding, *, group: int, version: int
) -> Signal:
    """Return what the finding ``number`` of its kind comes to, of a group's visit."""
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


class CoolDown:
    """Keeps a rule from repeating itself while the policy has hardly changed."""

    def __init__(self, versions: int) -> None:
        """Be silent for so many policy ``versions`` after a signal; 0 is never silent."""
        self._versions = versions
        self._last: dict[tuple[SignalKind, OnTask | OnPattern], int] = {}

    def start(self, signal: Signal) -> None:
        """Note that ``signal`` was raised."""
        self._last[signal.kind, signal.about] = signal.policy_version

    def silences(self, kind: SignalKind, about: OnTask | OnPattern, version: int) -> bool:
        """Return whether the same was said less than the cool-down ago."""
        last = self._last.get((kind, about))
        return last is not None and abs(version - last) < self._versions
