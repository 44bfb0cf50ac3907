"""From visits to signals: the configured rules over their history, with cool-downs.

A pure fold: the same visits give the same signals, whoever feeds them and in how many sittings.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from coevolve.signals import paper, posterior
from coevolve.signals.history import History
from coevolve.signals.rules import MOST_PER_VISIT, CoolDown, Finding, Rule, signal_of
from coevolve.signals.uncertainty import uncertainty
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
        "rare": posterior.rare,
        "uncertainty": uncertainty,
    },
}
"""By ``signals.rules``."""


class Detector:
    """The rules and all that they remember."""

    def __init__(self, config: SignalsConfig, tools: Sequence[str]) -> None:
        """Start without history; ``tools`` are the policy's tools, called or not."""
        self._config = config
        self._history = History(config, tools)
        self._cool_down = CoolDown(config.cool_down_versions)
        self._rules: dict[SignalKind, Rule] = {
            kind: rule for kind, rule in RULES[config.rules].items() if kind in config.kinds
        }

    def recall(self, message: GroupSummary | Signal) -> None:
        """Take in what was judged or said before; says nothing about it."""
        match message:
            case GroupSummary():
                self._history.add(message)
            case Signal():
                self._cool_down.start(message)

    def judge(self, visit: GroupSummary) -> tuple[Signal, ...]:
        """Take in a further visit and return what is to be said of it."""
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
        """Yield the findings that do not repeat what was said a short while ago."""
        for finding in rule(self._config, self._history, visit):
            if not self._cool_down.silences(kind, finding.about, visit.version_max):
                yield finding
