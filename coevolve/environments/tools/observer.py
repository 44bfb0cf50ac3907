"""What groups of rollouts with tools show, and what a policy may imitate of their tasks."""

from collections.abc import Iterable, Sequence

from coevolve.environments.rewards_only import RewardsAlone, TaskObserver
from coevolve.environments.tools.cells import NO_TOOL, parts_of, tools_by_turn
from coevolve.environments.tools.interfaces import Renderer
from coevolve.environments.tools.patterns import CountPatterns, patterns_of
from coevolve.environments.tools.task import tool_task
from coevolve.journal.task_cache import TaskCache
from coevolve.signals.groups import skill_counts
from coevolve.signals.skill_model import SkillSpace
from protocols.config import RunConfig
from protocols.evolution import PatternCount, SkillCount
from protocols.interfaces import Reader
from protocols.rollouts import Rollout
from protocols.tasks import Task


class ToolObserver(TaskObserver):
    """Observes tools, their order, arguments and errors, and the tools of tasks, besides rewards.

    A skill is what a turn's reference calls, for example ``cd+touch``; its parts are ``cd``,
    ``touch`` and their order.
    """

    def __init__(
        self,
        config: RunConfig,
        tools: Sequence[str],
        *,
        reader: Reader | None = None,
        cells: Iterable[str] = (),
        count: CountPatterns | None = None,
    ) -> None:
        """Start empty; ``tools`` are the names of all tools that the policy may call.

        ``cells`` are the skills that tasks may practise, if they are known.

        ``reader`` finds the tasks, whose references have to be calls; without one there are no
        skills. ``count`` is that of `patterns_of`.
        """
        names = sorted(tools)
        space = SkillSpace(
            parts_of,
            tuple(cells),
            tools=() if reader is None else tuple(names),
            imitates=config.learner.imitation.weight > 0,
        )
        super().__init__(config, names, space)
        self._skills = (
            None
            if reader is None
            else TaskCache(reader, lambda task: tools_by_turn(tool_task(task)))
        )
        self._tools = frozenset(tools)
        self._count = count

    def patterns(self, rollouts: Sequence[Rollout]) -> tuple[PatternCount, ...]:
        """Count the patterns in the calls of a group."""
        return patterns_of((rollout.actions for rollout in rollouts), self._tools, self._count)

    async def skills(self, rollouts: Sequence[Rollout]) -> tuple[SkillCount, ...]:
        """Count how the group did at what each turn's reference calls."""
        if self._skills is None or not rollouts:
            return ()
        counts = skill_counts(await self._skills.get(rollouts[0].task_id), rollouts)
        return tuple(each for each in counts if each.skill != NO_TOOL)


class ReferenceSupervision(RewardsAlone):
    """A `protocols.interfaces.Supervision` of tasks with references."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    def demonstration(self, task: Task) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the reference in the policy's tokens."""
        return self._renderer.demonstration(task)
