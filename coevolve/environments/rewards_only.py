"""The observer and the supervision of an environment that says nothing else: the rewards alone."""

from collections.abc import Sequence

from coevolve.journal.codec import topics_of
from coevolve.signals.detector import NO_EXPLORING, Detector, Exploring
from coevolve.signals.groups import CompleteGroup, summary_of
from coevolve.signals.skill_model import NO_SPACE, SkillSpace
from protocols.config import RunConfig
from protocols.evolution import (
    EnvironmentRecord,
    GroupSummary,
    PatternCount,
    Signal,
    SkillCount,
)
from protocols.generation import Grammar
from protocols.journal import Message
from protocols.rollouts import Rollout
from protocols.tasks import Task


class TaskObserver:
    """A `coevolve.signals.extractor.Observer` of the rewards of tasks."""

    topics = topics_of(GroupSummary, Signal)

    def __init__(
        self, config: RunConfig, tools: Sequence[str] = (), space: SkillSpace = NO_SPACE
    ) -> None:
        """Start empty; a pattern in ``tools`` counts as rare until a rollout contains it."""
        step, synthesizer = config.learner.groups_per_step, config.synthesizer
        exploring = Exploring(step, synthesizer.cold_start, synthesizer.idle_steps * step)
        if not config.synthesizes:
            exploring = NO_EXPLORING
        self._detector = Detector(config.signals, tools, config.remembered_tasks, exploring, space)

    def patterns(self, rollouts: Sequence[Rollout]) -> tuple[PatternCount, ...]:
        """Return no patterns: this observer does not look into rollouts."""
        return ()

    async def skills(self, rollouts: Sequence[Rollout]) -> tuple[SkillCount, ...]:
        """Return no skills: this observer does not look into tasks."""
        return ()

    @property
    def piece(self) -> Detector:
        """Return all that it remembers; no subclass may remember more."""
        return self._detector

    def recall(self, message: Message) -> None:
        """Add a group summary or a signal to the detector's history."""
        assert isinstance(message, GroupSummary | Signal)
        self._detector.recall(message)

    def signals(self, summary: GroupSummary) -> Sequence[Signal]:
        """Add a summary to the detector's history; return its signals."""
        return self._detector.judge(summary)

    async def judge(
        self, group: CompleteGroup
    ) -> tuple[GroupSummary, Sequence[Signal | EnvironmentRecord]]:
        """Return the group's summary and its signals; see `coevolve.signals.extractor.Observer`."""
        rollouts = [each for _, each in group.members if isinstance(each, Rollout)]
        summary = summary_of(
            group.members,
            root=group.members[0][1].task_id,
            calls=sum(len(rollout.actions) for rollout in rollouts),
            patterns=self.patterns(rollouts),
            skills=await self.skills(rollouts),
        )
        return summary, self.signals(summary)


class RewardsAlone:
    """A `protocols.interfaces.Supervision` that leaves the rewards unchanged."""

    def shape(self, rollouts: Sequence[Rollout]) -> tuple[float, ...]:
        """Return the rewards."""
        return tuple(rollout.reward for rollout in rollouts)

    def demonstration(self, task: Task) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return None: tasks have no references."""
        return None

    async def select(
        self, task: Task, group: int, rollouts: Sequence[Rollout]
    ) -> tuple[int, ...] | None:
        """Return None: the learner selects by the rewards."""
        return None

    async def grammar(self, task: Task) -> Grammar | None:
        """Return None: the policy's text is unconstrained."""
        return None
