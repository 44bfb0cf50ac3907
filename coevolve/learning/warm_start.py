"""The warm start: the first stage of a run, in which the learner only imitates references.

A policy that fails everything gets nothing from rewards. The warm start imitates references until
most skills of the trained tasks are ready; from then on rewards teach.

The stage of a step is a fold of the reports of the steps before it and of the tasks that the run
opened with. So a learner that was killed is in the same stage at the same step, and the report of
each step names its stage. A rollout counts as an attempt at every skill of its task.
"""

from collections import deque
from collections.abc import Collection, Sequence
from typing import NamedTuple

from coevolve.learning.history import History
from protocols.learner_config import WarmStartConfig
from protocols.learning import Stage, TrainedGroup, WarmStartEnded


class SkillAttempts:
    """The newest attempts at one skill."""

    def __init__(self, least: int) -> None:
        """Keep as few of the newest groups as together have ``least`` rollouts."""
        self._least = least
        self._groups: deque[tuple[int, int]] = deque()
        """(successes, rollouts) of each group."""

    def add(self, successes: int, rollouts: int) -> None:
        self._groups.append((successes, rollouts))
        while self._attempts - self._groups[0][1] >= self._least:
            self._groups.popleft()

    def succeeds(self, share: float) -> bool:
        """Return whether at least this share succeeded; False with too few attempts."""
        successes = sum(won for won, _ in self._groups)
        return self._attempts >= self._least and successes >= share * self._attempts

    @property
    def _attempts(self) -> int:
        return sum(rollouts for _, rollouts in self._groups)


class StagedStep(NamedTuple):
    """The stage of a step."""

    stage: Stage
    ended: WarmStartEnded | None
    """Why the warm start ended with it, if it did."""

    metrics: dict[str, float]


class WarmStart:
    """Says in which stage the next step is."""

    def __init__(self, config: WarmStartConfig, history: History) -> None:
        """Begin before the first step."""
        self._config = config
        self._history = history
        self._steps = 0
        self._given: Collection[str] | None = None
        """Skills of the tasks that the run opened with; None until they are read."""

        self._attempts: dict[str, SkillAttempts] = {}
        self.stage: Stage = "warm_start" if config.steps else "loop"
        """The stage of the next step."""

    @classmethod
    async def resumed(cls, config: WarmStartConfig, history: History) -> "WarmStart":
        """Return the stage after all steps that the journal has."""
        found = cls(config, history)
        last = await history.newest_step()
        if last is not None and (last.stage == "loop" or last.warm_start_ended is not None):
            found.stage = "loop"
        elif last is not None:
            for report in await history.steps(after=0):
                await found.take(report.groups)
        return found

    async def take(self, groups: Sequence[TrainedGroup]) -> StagedStep:
        """Add the next step; return its stage.

        A step without groups returned to earlier weights, of which the attempts say nothing.
        """
        if self.stage == "loop":
            return StagedStep("loop", None, {"stage/warm_start": 0.0} if self._config.steps else {})
        self._steps += 1
        if not groups:
            self._attempts.clear()
        for group in groups:
            for skill in await self._history.skills(group.task_id):
                attempts = self._attempts.setdefault(skill, SkillAttempts(self._config.attempts))
                attempts.add(group.successes, len(group.sequences))
        ready, skills = await self._counts()
        ended = self._ended(ready, skills)
        if ended is not None:
            self.stage = "loop"
        counts = {"stage/skills_ready": float(ready), "stage/skills": float(skills)}
        return StagedStep("warm_start", ended, {"stage/warm_start": 1.0, **counts})

    def _ended(self, ready: int, skills: int) -> WarmStartEnded | None:
        if 2 * ready > skills:
            return WarmStartEnded(reason="skills", ready=ready, skills=skills)
        if self._steps >= self._config.steps:
            return WarmStartEnded(reason="steps", ready=ready, skills=skills)
        return None

    async def _counts(self) -> tuple[int, int]:
        """Return the number of skills that are ready, and of all skills."""
        if self._given is None:
            self._given = await self._history.opening_skills()
        share = self._config.success_share
        ready = sum(each.succeeds(share) for each in self._attempts.values())
        return ready, len({*self._given, *self._attempts})
