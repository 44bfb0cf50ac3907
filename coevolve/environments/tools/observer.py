"""The observer of groups of rollouts with tools."""

from collections.abc import Sequence

from coevolve.environments.rewards_only import TaskObserver
from coevolve.environments.tools.patterns import CountPatterns, patterns_of
from protocols.config import RunConfig
from protocols.evolution import PatternCount
from protocols.rollouts import Rollout


class ToolObserver(TaskObserver):
    """Observes tools, their order, arguments and errors, besides rewards."""

    def __init__(
        self, config: RunConfig, tools: Sequence[str], count: CountPatterns | None = None
    ) -> None:
        """Start empty; ``tools`` are the names of all tools that the policy may call.

        ``count`` is that of `patterns_of`.
        """
        super().__init__(config, sorted(tools))
        self._tools = frozenset(tools)
        self._count = count

    def patterns(self, rollouts: Sequence[Rollout]) -> tuple[PatternCount, ...]:
        """Count the patterns in the calls of a group."""
        return patterns_of((rollout.actions for rollout in rollouts), self._tools, self._count)
