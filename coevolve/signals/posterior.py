"""Rules that fire where chance is an unlikely explanation (the default).

Under "nothing changed" each fires on at most 5 % of its evaluations at the default settings,
whatever the success rate; `python -m coevolve.calibrate` measures it. Sources: Benjamini and
Hochberg 1995 for discoveries in a pool; Altham 1969 for exact tests as posteriors.

- **forgetting** compares the newest visit with all earlier visits of older policy versions in the
  window, pooled. Comparing with the best of them would take luck for skill. Two things have to
  hold. That something was lost: Benjamini-Hochberg at ``false_discovery`` over all tasks that can
  be compared, on Fisher's exact p-values of "nothing changed". That it is more than
  ``forgetting_drop``: the posterior from uniform priors gives it 1 - ``false_discovery``. The
  posterior's tail itself is no p-value to discover by: for drops near 0 it raises up to 12 % false
  alarms, for large ones it finds one drop in twenty in a pool of 100 tasks.
- **boundary** asks whether chance explains the successes at a rate outside the band. A uniform
  prior would raise up to 15 % false alarms at the band's edges, depending on the group's size (4 %
  with 8 rollouts, 15 % with 7). So each edge is judged under the prior that favours it most,
  Beta(0, 1) below and Beta(1, 0) above; the tails are then those of the exact binomial test.
- **rare** asks the same of a pattern's share, under Beta(1, 0), with counts rounded up and visits
  rounded down. A tool that the policy has and never called is as rare as can be.
"""

import math
from collections.abc import Iterator

from coevolve.signals.history import History, PatternKey, Share
from coevolve.signals.probability import (
    SuccessCount,
    at_least,
    at_most,
    benjamini_hochberg,
    no_drop,
    same_rate,
)
from coevolve.signals.rules import Finding
from protocols.evolution import GroupSummary, OnPattern, OnTask
from protocols.evolution_config import SignalsConfig

ROUNDING = 1e-9
"""Decayed counts carry rounding errors; this much is not rounded up or down."""


def forgetting(config: SignalsConfig, history: History, visit: GroupSummary) -> Iterator[Finding]:
    """Fire where the task's drop is among the discoveries of the whole pool."""
    before, now = history.tasks[visit.task_id].before_and_now()
    doubt = no_drop(before, now, config.forgetting_drop)
    if before.rollouts == 0 or doubt > config.false_discovery:
        return  # as most visits do, without looking at the pool
    pool = [task.before_and_now() for task in history.tasks.values()]
    p_values = [same_rate(*each) for each in pool if each[0].rollouts]
    if same_rate(before, now) <= benjamini_hochberg(p_values, config.false_discovery):
        yield Finding(
            about=OnTask(task_id=visit.task_id),
            score=min(1.0, max(0.0, before.mean - now.mean)),
            rule=(
                f"posterior forgetting: {before} before, {now} now, "
                f"P(drop > {config.forgetting_drop:g}) = {_probability(1 - doubt)}, "
                f"FDR {config.false_discovery:g} over {len(p_values)} tasks"
            ),
            evidence=visit.evidence,
        )


def boundary(config: SignalsConfig, history: History, visit: GroupSummary) -> Iterator[Finding]:
    """Fire where the task's success rate lies inside the band with confidence."""
    _, now = history.tasks[visit.task_id].before_and_now()
    low, high = (
        _observed(rate, config.reward_flip_rate)
        for rate in (config.boundary_low, config.boundary_high)
    )
    below = at_least(now.successes, now.rollouts, low)
    above = at_most(now.successes, now.rollouts, high)
    if below + above <= 1 - config.confidence + ROUNDING:
        yield Finding(
            about=OnTask(task_id=visit.task_id),
            score=expected_variance(now),
            rule=(
                f"posterior boundary: {now} now, P({low:g} < success < {high:g}) >= "
                f"{_probability(1 - below - above)}"
            ),
            evidence=visit.evidence,
        )


def rare(config: SignalsConfig, history: History, visit: GroupSummary) -> Iterator[Finding]:
    """Fire for patterns of this visit, and for tools used or not, whose share is small."""
    shares = [(history.share(*key), key) for key in _asked(config, history, visit)]
    rising = sorted(
        (share.seen / share.visits, key, share) for share, key in shares if share.visits >= 1
    )
    for rate, key, share in rising:
        if rate >= config.rare_share:
            return
        doubt = _not_rare(share, config.rare_share)
        if doubt <= 1 - config.confidence + ROUNDING:
            yield Finding(
                about=OnPattern(kind=key[0], pattern=key[1]),
                score=1 - rate / config.rare_share,
                rule=(
                    f"posterior rare: {share.seen:.3g} of {share.visits:.3g} visits (half-life "
                    f"{config.half_life_visits:g}), P(share < {config.rare_share:g}) >= "
                    f"{_probability(1 - doubt)}"
                ),
                evidence=history.last_evidence.get(key, ()),
            )


def expected_variance(tally: SuccessCount) -> float:
    """Return the posterior mean of 4 p (1 - p), uniform prior: 0 where settled, 1 at one half."""
    a, b = tally.successes + 1, tally.rollouts - tally.successes + 1
    return 4 * a * b / ((a + b) * (a + b + 1))


def _observed(rate: float, flips: float) -> float:
    """Return the share of successes that is seen of ``rate`` when verdicts flip so often."""
    return rate * (1 - 2 * flips) + flips


def _asked(config: SignalsConfig, history: History, visit: GroupSummary) -> set[PatternKey]:
    """Return the patterns to be judged: a pattern seen long ago alone has no evidence any more."""
    asked: set[PatternKey] = {("tool", tool) for tool in history.tools}
    asked.update((each.kind, each.pattern) for each in visit.patterns)
    return {key for key in asked if key[0] in config.patterns or not config.patterns}


def _not_rare(share: Share, rare_share: float) -> float:
    """Return how likely so few occurrences are where the share is no smaller than rare."""
    count = math.ceil(share.seen - ROUNDING)
    return at_most(count, math.floor(share.visits + ROUNDING), rare_share)


def _probability(value: float) -> str:
    """Return a probability that does not round to 1."""
    return f"{value:.3f}" if value < 0.9995 else "0.999+"
