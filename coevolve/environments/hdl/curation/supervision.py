"""The learner's information on steps on designs beyond their rewards."""

from collections.abc import Callable, Sequence

from coevolve.environments.hdl.config import HdlConfig
from coevolve.environments.hdl.curation.rejection import most_gained, rule_of
from coevolve.environments.hdl.curation.signals import rarity_bonuses
from coevolve.environments.hdl.policy.stages import is_learned_from, stage_of
from coevolve.environments.hdl.policy.task import CoverageTask, coverage_task
from coevolve.environments.hdl.policy.transition import coverage_of, graded_of
from protocols.generation import Grammar
from protocols.rollouts import Rollout
from protocols.tasks import Task

GrammarOf = Callable[[CoverageTask], Grammar | None]
"""Returns the grammar within which the policy wrote a step."""


class DesignSupervision:
    """A `protocols.interfaces.Supervision`: coverage-guided rejection, and a rarity bonus."""

    def __init__(self, settings: HdlConfig, grammar_of: GrammarOf | None = None) -> None:
        self._settings = settings
        self._grammar_of = grammar_of

    def shape(self, rollouts: Sequence[Rollout]) -> tuple[float, ...]:
        """Return the rewards with the bonus of LLM4Cov's authors (`hdl.curation.signals`).

        The bonus is on the scale of these rewards, 0 or 1 to 2; the authors halve it.
        """
        rewards = tuple(rollout.reward for rollout in rollouts)
        weight = self._settings.rarity_bonus
        if not weight:
            return rewards
        bonuses = rarity_bonuses([_hits(rollout) for rollout in rollouts])
        return tuple(r + weight * bonus for r, bonus in zip(rewards, bonuses, strict=True))

    def demonstration(self, task: Task) -> None:
        """Return None: designs have no references that a policy could imitate."""

    async def select(
        self, task: Task, group: int, rollouts: Sequence[Rollout]
    ) -> tuple[int, ...] | None:
        """Return the steps left after coverage-guided rejection; None if nothing was graded."""
        states = [graded_of(each) for each in rollouts]
        made = {index: state for index, state in enumerate(states) if state is not None}
        if not made:
            return None
        given = coverage_task(task)
        stages = self._settings.stages
        stage = stages[stage_of(stages, group)]
        if not is_learned_from(stage, rollouts[0].author):
            return ()
        return most_gained(given.state, made, rule_of(stage.rejection))

    async def grammar(self, task: Task) -> Grammar | None:
        """Return the tiny policy's grammar for the step."""
        return None if self._grammar_of is None else self._grammar_of(coverage_task(task))


def _hits(rollout: Rollout) -> bytes:
    state = graded_of(rollout)
    coverage = coverage_of(state) if state else None
    return coverage.hits if coverage else b""
