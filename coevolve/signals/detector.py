"""Turns group summaries into signals: applies the configured rules and cool-downs.

A pure fold: the same summaries give the same signals in every process, also after restarts.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from coevolve.signals import paper, posterior, skills
from coevolve.signals.history import History, HistoryState
from coevolve.signals.rules import MOST_PER_VISIT, CoolDown, Finding, LastSignals, Rule, signal_of
from coevolve.signals.skill_model import NO_SPACE, SkillSpace
from coevolve.signals.uncertainty import uncertainty
from coevolve.signals.unsolved import unsolved
from protocols.evolution import Anything, GroupSummary, RuleKind, Signal
from protocols.evolution_config import SignalsConfig

RULES: Mapping[str, Mapping[RuleKind, Rule]] = {
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
    "skills": {
        "forgetting": skills.forgetting,
        "boundary": skills.boundary,
        "unsolved": unsolved,
        "rare": skills.rare,
        "uncertainty": uncertainty,
    },
}
"""Rules by ``signals.rules`` and kind."""


class Exploring(NamedTuple):
    """When to explore freely, in groups without a signal."""

    cold: int
    """Groups for an exploration before any rule has fired."""

    most: int
    """Maximum number of these explorations."""

    idle: int = 0
    """Groups for any other exploration; 0 for none."""


NO_EXPLORING = Exploring(1, 0)


class DetectorState(msgspec.Struct):
    """The state of the rules."""

    history: HistoryState
    last: LastSignals

    has_fired: bool = False
    """Whether any rule has fired."""

    explored: int = 0
    """Number of explorations."""

    quiet: int = 0
    """Groups since the newest signal."""


class Detector:
    """The rules and their state; a `coevolve.journal.snapshots.Piece`."""

    keeps = ()

    def __init__(
        self,
        config: SignalsConfig,
        tools: Sequence[str],
        most_tasks: int,
        exploring: Exploring = NO_EXPLORING,
        space: SkillSpace = NO_SPACE,
    ) -> None:
        """Start without history; ``tools`` are all tools of the policy, called or not.

        The ``most_tasks`` tasks that were visited last are remembered.
        """
        self.parts_of = space.parts_of
        self._config = config
        self._exploring = exploring
        self._has_fired, self._explored, self._quiet = False, 0, 0
        self._history = History(config, tools, most_tasks, space)
        self._cool_down = CoolDown(config.cool_down_versions)
        self._rules: dict[RuleKind, Rule] = {
            kind: rule for kind, rule in RULES[config.rules].items() if kind in config.kinds
        }

    @property
    def settings(self) -> object:
        return self._config, self._history.tools, self._exploring

    @property
    def state(self) -> DetectorState:
        """What the rules remember."""
        return DetectorState(
            self._history.state,
            self._cool_down.state,
            self._has_fired,
            self._explored,
            self._quiet,
        )

    @state.setter
    def state(self, state: DetectorState) -> None:
        self._history.state, self._cool_down.state = state.history, state.last
        self._has_fired = state.has_fired
        self._explored, self._quiet = state.explored, state.quiet

    def recall(self, message: GroupSummary | Signal) -> None:
        match message:
            case GroupSummary():
                self._history.add(message)
                self._quiet += 1
            case Signal(kind="cold_start"):
                self._explored, self._quiet = self._explored + 1, 0
            case Signal():
                self._has_fired, self._quiet = True, 0
                self._cool_down.start(message)

    def judge(self, visit: GroupSummary) -> tuple[Signal, ...]:
        self.recall(visit)
        if visit.rollouts == 0:
            return ()
        signals = tuple(
            signal_of(kind, number, finding, group=visit.group, version=visit.version_max)
            for kind, rule in self._rules.items()
            for number, finding in enumerate(islice(self._news(kind, rule, visit), MOST_PER_VISIT))
        )
        signals = signals or tuple(self._explorations(visit))
        for signal in signals:
            self.recall(signal)
        return signals

    def _explorations(self, visit: GroupSummary) -> Iterator[Signal]:
        """Yield an exploration if as many groups as it takes brought no signal."""
        is_cold = not self._has_fired and self._explored < self._exploring.most
        groups = self._exploring.cold if is_cold else self._exploring.idle
        if groups and self._quiet >= groups:
            yield Signal(
                signal_id=f"cold_start-g{visit.group}-0",
                kind="cold_start",
                about=Anything(),
                score=0.0,
                rule=f"exploration {self._explored + 1}: {self._quiet} groups brought no signal",
                evidence=(),
                policy_version=visit.version_max,
            )

    def _news(self, kind: RuleKind, rule: Rule, visit: GroupSummary) -> Iterator[Finding]:
        """Yield the findings outside the cool-down of an equal signal."""
        for finding in rule(self._config, self._history, visit):
            if not self._cool_down.silences(kind, finding.about, visit.version_max):
                yield finding
