"""CoEvolve's own rules (arXiv 2604.15840): thresholds on single visits.

They mostly fire on sampling noise (`coevolve calibrate` measures how often) and are here
for comparison. Choices that the paper leaves open: the score of a visit is its success rate; the
window holds the W visits before the newest; a pattern is a called tool, because with finer patterns
nearly all are rare; N counts every call since the run began. Deviation: like all signals they use
the configured cool-down; 0 turns it off.
"""

from collections.abc import Iterator

from coevolve.signals.history import History, then_and_now
from coevolve.signals.rules import Finding
from protocols.evolution import GroupSummary, OnPattern, OnTask
from protocols.evolution_config import SignalsConfig

GOOD = 0.5
"""Success rate from which a visit is good."""


def forgetting(config: SignalsConfig, history: History, visit: GroupSummary) -> Iterator[Finding]:
    """Fire if some visit in the window was good and the newest one is not."""
    best = max(
        (outcome.tally for outcome in history.task(visit.task_id).earlier()),
        key=lambda tally: tally.successes / tally.rollouts,
        default=None,
    )
    if best is None:
        return
    once, now = best.successes / best.rollouts, visit.successes / visit.rollouts
    if once >= GOOD > now:
        yield Finding(
            about=OnTask(task_id=visit.task_id),
            score=once - now,
            rule=(
                f"paper forgetting: {best} once, {visit.successes}/{visit.rollouts} now, good from "
                f"{GOOD} on, window {config.window} visits"
            ),
            evidence=then_and_now(history, visit),
        )


def boundary(config: SignalsConfig, history: History, visit: GroupSummary) -> Iterator[Finding]:
    """Fire if one group has a reward above 0.5 and one below (rewards are 0 or 1)."""
    if 0 < visit.successes < visit.rollouts:
        rate = visit.successes / visit.rollouts
        yield Finding(
            about=OnTask(task_id=visit.task_id),
            score=4 * rate * (1 - rate),
            rule=f"paper boundary: {visit.successes}/{visit.rollouts} in one group",
            evidence=visit.evidence,
        )


def rare(config: SignalsConfig, history: History, visit: GroupSummary) -> Iterator[Finding]:
    """Fire for the tools of this visit whose share of all calls so far is small."""
    calls = history.pattern(("tool", "")).total
    tools = [each.pattern for each in visit.patterns if each.kind == "tool"]
    for tool in sorted(tools, key=lambda tool: (history.pattern(("tool", tool)).total, tool)):
        count = history.pattern(("tool", tool)).total
        if count / calls < config.rare_share:
            yield Finding(
                about=OnPattern(kind="tool", pattern=tool),
                score=1 - count / calls / config.rare_share,
                rule=f"paper rare: {count} of {calls} calls, below {config.rare_share}",
                evidence=visit.evidence,
            )
