"""The observer of groups of rollouts that write code."""

from collections.abc import Sequence

from coevolve.environments.appworld.patterns import patterns_of
from coevolve.environments.base import TaskObserver
from protocols.config import RunConfig
from protocols.evolution import PatternCount
from protocols.rollouts import Rollout


class CodeObserver(TaskObserver):
    """Observes the APIs that blocks name, besides rewards."""

    def __init__(self, config: RunConfig, tools: Sequence[str]) -> None:
        """Start empty; ``tools`` are the names of all APIs, as ``app.api``."""
        super().__init__(config, sorted(tools))
        self._tools = frozenset(tools)

    def patterns(self, rollouts: Sequence[Rollout]) -> tuple[PatternCount, ...]:
        return patterns_of((rollout.actions for rollout in rollouts), self._tools)
