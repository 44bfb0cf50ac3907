"""The stages of a run: the warm start, if it has one, and the loop after it."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from coevolve.history.score import Score
from protocols.journal import Message
from protocols.learner_config import WarmStartConfig
from protocols.learning import StepReport, WarmStartEnded


class Milestone(NamedTuple):
    """A version at which a stage began or ended."""

    when: str
    """Before, after the warm start, after the loop; in words."""

    version: int
    score: Score

    @property
    def words(self) -> str:
        """Return the score, and of which version it is."""
        return f"{self.score.percent} {self.when} (version {self.version})"


class Stages(msgspec.Struct):
    """What the steps' reports say of their stages; `fold` takes them in journal order."""

    warm_steps: int = 0
    """Steps of the warm start so far."""

    last: int = 0
    """The last of them so far, which is also its version; 0 without a warm start."""

    loop_steps: int = 0
    ready: int = 0
    """Skills of which enough attempts succeed, at the last step of the warm start."""

    skills: int = 0
    """All skills that it counted."""

    ended: WarmStartEnded | None = None
    """Why it ended, if it did."""

    def fold(self, message: Message) -> None:
        """Add one record; records of other kinds change nothing."""
        if not isinstance(message, StepReport):
            return
        if message.stage == "loop":
            self.loop_steps += 1
            return
        self.warm_steps += 1
        self.last = message.step
        self.ready = int(message.metrics.get("stage/skills_ready", 0))
        self.skills = int(message.metrics.get("stage/skills", 0))
        self.ended = message.warm_start_ended

    @property
    def is_warm(self) -> bool:
        """Whether the run is in its warm start."""
        return self.warm_steps > 0 and self.ended is None and not self.loop_steps

    def line(self, config: WarmStartConfig) -> str:
        """Return how far the warm start is, or why it ended; empty without one."""
        if not self.warm_steps:
            return ""
        share = f"{100 * config.success_share:.0f} % of attempts"
        skills = f"{self.ready} of {self.skills} skills succeed in {share}"
        if self.is_warm:
            return f"step {self.warm_steps} of at most {config.steps}; {skills}"
        reason = "" if self.ended is None or self.ended.reason == "skills" else ", its maximum"
        return f"{self.warm_steps} step{'s' * (self.warm_steps > 1)}{reason}; {skills}"

    def milestones(self, scores: Mapping[int, Score]) -> list[Milestone]:
        """Return the held-out scores around the stages, by version; [] without a warm start.

        A version that was not scored is left out.
        """
        if not self.warm_steps:
            return []
        found = [("before", 0)]
        if not self.is_warm:
            found.append(("after the warm start", self.last))
        newest = max(scores, default=0)
        if newest > self.last:
            found.append(("after the loop", newest))
        elif self.is_warm and newest:
            found.append(("in the warm start", newest))
        return [Milestone(when, each, scores[each]) for when, each in found if each in scores]
