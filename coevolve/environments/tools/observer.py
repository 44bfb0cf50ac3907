"""What the signals part makes of groups of rollouts with tools."""

from collections.abc import Sequence

from coevolve.environments.tools.patterns import patterns_of
from coevolve.signals.detector import Detector
from coevolve.signals.groups import CompleteGroup, summary_of
from protocols.config import RunConfig
from protocols.evolution import GroupSummary, Signal
from protocols.journal import Message
from protocols.rollouts import Rollout


class ToolObserver:
    """A `coevolve.signals.extractor.Observer` of rollouts with tools."""

    topics = ("group_summary", "signal")

    def __init__(self, config: RunConfig, tools: Sequence[str]) -> None:
        """Remember nothing; ``tools`` are the names of all tools that the policy may call."""
        self._tools = frozenset(tools)
        self._detector = Detector(config.signals, sorted(self._tools))

    def recall(self, message: Message) -> None:
        """Take in a summary or a signal."""
        assert isinstance(message, GroupSummary | Signal)
        self._detector.recall(message)

    async def judge(self, group: CompleteGroup) -> tuple[GroupSummary, Sequence[Signal]]:
        """Sum up the group and ask the rules; see `coevolve.signals.extractor.Observer`."""
        rollouts = [each for _, each in group.members if isinstance(each, Rollout)]
        summary = summary_of(
            group.members,
            root=group.members[0][1].task_id,
            calls=sum(len(rollout.actions) for rollout in rollouts),
            patterns=patterns_of((rollout.actions for rollout in rollouts), self._tools),
        )
        return summary, self._detector.judge(summary)
