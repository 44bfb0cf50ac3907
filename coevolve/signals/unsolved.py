"""A rule in addition to the posterior ones: what the policy never manages.

It fires for a task none of whose attempts within the window succeeded, and for a skill of tasks
that no attempt has passed since the last one that did, if so many failures in a row have at most
the probability ``1 - confidence`` at a success rate of ``boundary_low``. So at the default settings
29 attempts have to fail, and with that rate or a higher one the rule fires on at most 5 % of its
evaluations. Skills come first: they say what all tasks with them lack.
"""

from collections.abc import Iterator

from coevolve.signals.history import History
from coevolve.signals.posterior import observed_rate
from coevolve.signals.probability import ROUNDING, at_most
from coevolve.signals.rules import Finding
from protocols.evolution import SKILL, GroupSummary, OnPattern, OnTask
from protocols.evolution_config import SignalsConfig


def unsolved(config: SignalsConfig, history: History, visit: GroupSummary) -> Iterator[Finding]:
    """Fire for the skills and the task of this visit that fail in all of enough attempts."""
    if visit.author != "policy":
        return
    for each in visit.skills:
        failures = history.failures(each.skill)
        if finding := _finding(config, OnPattern(kind=SKILL, pattern=each.skill), failures, visit):
            yield finding
    outcomes = history.task(visit.task_id).outcomes
    failed = sum(each.tally.rollouts for each in outcomes)
    if any(each.tally.successes for each in outcomes):
        return
    if finding := _finding(config, OnTask(task_id=visit.task_id), failed, visit):
        yield finding


def _finding(
    config: SignalsConfig, about: OnTask | OnPattern, failures: int, visit: GroupSummary
) -> Finding | None:
    low = observed_rate(config.boundary_low, config.reward_flip_rate)
    doubt = at_most(0, failures, low)
    if not failures or doubt > 1 - config.confidence + ROUNDING:
        return None
    return Finding(
        about=about,
        score=1 - doubt,
        rule=(
            f"unsolved: {failures} of {failures} attempts failed, P(none of them succeeds at a "
            f"rate of {low:g}) = {doubt:.2g}"
        ),
        evidence=visit.evidence,
    )
