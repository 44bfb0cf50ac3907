"""Turns group summaries into signals: applies the configured rules and cool-downs.

A pure fold: the same summaries give the same signals in every process, also after restarts.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from coevolve.signals import paper, posterior
from coevolve.signals.history import History, HistoryState
from coevolve.signals.rules import MOST_PER_VISIT, CoolDown, Finding, LastSignals, Rule, signal_of
from coevolve.signals.uncertainty import uncertainty
from coevolve.signals.unsolved import unsolved
from protocols.evolution import GroupSummary, Signal, SignalKind
from protocols.evolution_config import SignalsConfig

RULES: Mapping[str, Mapping[SignalKind, Rule]] = {
    "paper": {
        "forgetting": paper.forgetting,
        "boundary": paper.boundary,
        "rare": paper.rare,
        "uncertainty": uncertainty,
    },
    "posterior": {
        "forgetting": posterior.forgetting,
        "boundary": posterior.boundary,
        "unsolved": unsolved,
        "rare": posterior.rare,
        "uncertainty": uncertainty,
    },
}
"""Rules by ``signals.rules`` and kind."""


class DetectorState(msgspec.Struct):
    """The state of the rules."""

    history: HistoryState
    last: LastSignals


class Detector:
    """The rules and their state; a `coevolve.journal.snapshots.Piece`."""

    keeps = ()

    def __init__(self, config: SignalsConfig, tools: Sequence[str], most_tasks: int) -> None:
        """Start without history; ``tools`` are all tools of the policy, called or not.

        The ``most_tasks`` tasks that were visited last are remembered.
        """
        self._config = config
        self._history = History(config, tools, most_tasks)
        self._cool_down = CoolDown(config.cool_down_versions)
        self._rules: dict[SignalKind, Rule] = {
            kind: rule for kind, rule in RULES[config.rules].items() if kind in config.kinds
        }

    @property
    def settings(self) -> object:
        return self._config, self._history.tools

    @property
    def state(self) -> DetectorState:
        """What the rules remember."""
        return DetectorState(self._history.state, self._cool_down.state)

    @state.setter
    def state(self, state: DetectorState) -> None:
        self._history.state, self._cool_down.state = state.history, state.last

    def recall(self, message: GroupSummary | Signal) -> None:
        match message:
            case GroupSummary():
                self._history.add(message)
            case Signal():
                self._cool_down.start(message)

    def judge(self, visit: GroupSummary) -> tuple[Signal, ...]:
        """Add a further summary and return its signals."""
        self.recall(visit)
        if visit.rollouts == 0:
            return ()
        signals = tuple(
            signal_of(kind, number, finding, group=visit.group, version=visit.version_max)
            for kind, rule in self._rules.items()
            for number, finding in enumerate(islice(self._news(kind, rule, visit), MOST_PER_VISIT))
        )
        for signal in signals:
            self.recall(signal)
        return signals

    def _news(self, kind: SignalKind, rule: Rule, visit: GroupSummary) -> Iterator[Finding]:
        """Yield the findings outside the cool-down of an equal signal."""
        for finding in rule(self._config, self._history, visit):
            if not self._cool_down.silences(kind, finding.about, visit.version_max):
                yield finding
