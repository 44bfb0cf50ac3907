"""Rules that pool evidence over all tasks that share a skill (`coevolve.signals.skill_model`).

The other rules look at tasks one by one, and a run visits most tasks once to three times. These
rules judge skills and their parts:

- **forgetting** fires for a part whose residuals add up to a loss, over whatever tasks have it.
- **boundary** draws one of all skills, and a success rate from its posterior. It fires in
  proportion to the square of what is left to learn there
  (`coevolve.signals.skill_model.left_to_learn`): most often where attempts will differ, or fail if
  the learner imitates references; more often than that where little is known; and without waiting
  for a visit of that skill.
- **rare** draws one of all parts, and fires if its visits are below `RARE` of an equal share.
  Parts are those of the skills, so a tool that no task needs is never called rare.

The draws depend on the group's number alone, so that the same summaries give the same signals. All
skills are those that the environment names as cells; if it names none, each tool and the skills of
visited tasks.
"""

from collections.abc import Iterator

import numpy as np

from coevolve.signals.history import History
from coevolve.signals.rules import Finding
from protocols.evolution import SKILL, GroupSummary, OnPattern
from protocols.evolution_config import SignalsConfig

OFTEN = 0.5
"""Most signals of `boundary` a visit: each makes several tasks, and a task takes a visit."""

RARE = 0.25
"""Share of an equal share below which a part is rare."""

_BOUNDARY_STREAM, _RARE_STREAM = 1, 2


def forgetting(config: SignalsConfig, history: History, visit: GroupSummary) -> Iterator[Finding]:
    """Fire for the parts of this visit that the policy has lost."""
    for part, before in history.skills.lost.items():
        yield Finding(
            about=OnPattern(kind=SKILL, pattern=part),
            score=before,
            rule=f"skills forgetting: {part}, {before:.2f} before, worse than expected since",
            evidence=visit.evidence,
        )


def boundary(config: SignalsConfig, history: History, visit: GroupSummary) -> Iterator[Finding]:
    """Fire for a skill that is likely to teach."""
    rng = np.random.default_rng((visit.group, _BOUNDARY_STREAM))
    skills = history.skills.skills
    if not skills:
        return
    skill = skills[int(rng.integers(len(skills)))]
    chance = history.skills.chance(skill, rng)
    score = history.skills.space.left(chance)
    if rng.random() < OFTEN * score**2:
        yield Finding(
            about=OnPattern(kind=SKILL, pattern=skill),
            score=score,
            rule=f"skills boundary: {skill}, success {chance:.2f} drawn from its posterior",
            evidence=visit.evidence if skill in {each.skill for each in visit.skills} else (),
        )


def rare(config: SignalsConfig, history: History, visit: GroupSummary) -> Iterator[Finding]:
    """Fire for a part that has had few of the visits."""
    rng = np.random.default_rng((visit.group, _RARE_STREAM))
    names = history.skills.names
    if not names:
        return
    part = names[int(rng.integers(len(names)))]
    share = history.skills.share(part)
    if share < RARE:
        yield Finding(
            about=OnPattern(kind=SKILL, pattern=part),
            score=1 - share / RARE,
            rule=f"skills rare: {part} has {share:.2f} of an equal share of the visits",
            evidence=(),
        )
