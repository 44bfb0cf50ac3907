"""What the learner is told of steps on designs beyond their rewards."""

from collections.abc import Awaitable, Callable, Sequence

from coevolve.environments.hdl.curation.rejection import most_gained, rule_of
from coevolve.environments.hdl.curation.signals import rarity_bonuses
from coevolve.environments.hdl.policy.stages import is_learned_from, stage_of
from protocols.generation import Grammar
from protocols.hardware_config import HdlConfig
from protocols.rollouts import Rollout
from protocols.tasks import AnyTask, CoverageTask
from protocols.transitions import coverage_of

GrammarOf = Callable[[CoverageTask], Awaitable[Grammar | None]]
"""Tells what a step was kept within while the policy wrote."""


class DesignSupervision:
    """A `protocols.interfaces.Supervision`: coverage-guided rejection, and a bonus for rarity."""

    def __init__(self, settings: HdlConfig, grammar_of: GrammarOf | None = None) -> None:
        self._settings = settings
        self._grammar_of = grammar_of

    def shape(self, rollouts: Sequence[Rollout]) -> tuple[float, ...]:
        """Return the rewards, with the bonus of LLM4Cov's authors (`hdl.curation.signals`).

        It is on their scale of rewards, 0 or 1 to 2, where theirs is halved.
        """
        rewards = tuple(rollout.reward for rollout in rollouts)
        weight = self._settings.rarity_bonus
        if not weight:
            return rewards
        bonuses = rarity_bonuses([_hits(rollout) for rollout in rollouts])
        return tuple(r + weight * bonus for r, bonus in zip(rewards, bonuses, strict=True))

    def demonstration(self, task: AnyTask) -> None:
        """Return None: designs have no references that a policy could imitate."""

    async def select(
        self, task: AnyTask, group: int, rollouts: Sequence[Rollout]
    ) -> tuple[int, ...] | None:
        """Return what coverage-guided rejection leaves; None if nothing was graded."""
        made = {index: each.graded for index, each in enumerate(rollouts) if each.graded}
        if not made:
            return None
        assert isinstance(task, CoverageTask)
        stages = self._settings.stages
        stage = stages[stage_of(stages, group)]
        if not is_learned_from(stage, rollouts[0].author):
            return ()
        return most_gained(task.state, made, rule_of(stage.rejection), task.goal)

    async def grammar(self, task: AnyTask) -> Grammar | None:
        """Return the tiny policy's grammar of the step."""
        assert isinstance(task, CoverageTask)
        return None if self._grammar_of is None else await self._grammar_of(task)


def _hits(rollout: Rollout) -> bytes:
    coverage = coverage_of(rollout.graded) if rollout.graded else None
    return coverage.hits if coverage else b""
