"""Rules that fire if chance is an unlikely explanation (the default).

Under "nothing changed", each fires on at most 5 % of its evaluations at the default settings, at
any success rate; `coevolve calibrate` measures this. Sources: Benjamini and Hochberg 1995
for discoveries in a pool; Altham 1969 for exact tests as posteriors.

- **forgetting** compares the newest visit with the pool of all earlier visits of older policy
  versions in the window. A comparison with the best of them would mistake luck for skill. Two
  conditions must hold. First, something was lost: Benjamini-Hochberg at ``false_discovery`` over
  all comparable tasks, on Fisher's exact p-values of "nothing changed". Second, the loss exceeds
  ``forgetting_drop``: the posterior from uniform priors gives it 1 - ``false_discovery``. The
  posterior's tail alone is no p-value for discoveries: for drops near 0 it gives up to 12 % false
  alarms, and for large drops it finds one in twenty in a pool of 100 tasks.
- **boundary** tests whether chance explains the successes at a rate outside the band. A uniform
  prior would give up to 15 % false alarms at the band's edges, depending on the group's size (4 %
  with 8 rollouts, 15 % with 7). Each edge is therefore judged under the prior that favours it most,
  Beta(0, 1) below and Beta(1, 0) above; the tails are then those of the exact binomial test.
- **rare** tests the same for a pattern's share, under Beta(1, 0), with counts rounded up and visits
  rounded down. A tool that the policy has but never called has the highest rarity.
"""

import math
from collections.abc import Iterator

from coevolve.signals.history import History, PatternKey, Share, then_and_now
from coevolve.signals.probability import (
    ROUNDING,
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


def forgetting(config: SignalsConfig, history: History, visit: GroupSummary) -> Iterator[Finding]:
    """Fire if the task's drop is among the discoveries of the whole pool."""
    before, now = history.task(visit.task_id).before_and_now()
    doubt = no_drop(before, now, config.forgetting_drop)
    if before.rollouts == 0 or doubt > config.false_discovery:
        return  # the usual case, which needs no look at the pool
    if same_rate(before, now) <= benjamini_hochberg(history.p_values, config.false_discovery):
        yield Finding(
            about=OnTask(task_id=visit.task_id),
            score=min(1.0, max(0.0, before.mean - now.mean)),
            rule=(
                f"posterior forgetting: {before} before, {now} now, "
                f"P(drop > {config.forgetting_drop:g}) = {_probability(1 - doubt)}, "
                f"FDR {config.false_discovery:g} over {len(history.p_values)} tasks"
            ),
            evidence=then_and_now(history, visit),
        )


def boundary(config: SignalsConfig, history: History, visit: GroupSummary) -> Iterator[Finding]:
    """Fire if the task's success rate lies inside the band with confidence."""
    _, now = history.task(visit.task_id).before_and_now()
    low, high = (
        observed_rate(rate, config.reward_flip_rate)
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
    """Fire for patterns of this visit and for all tools whose share is small."""
    shares = [(history.share(*key), key) for key in _patterns_to_judge(config, history, visit)]
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
                evidence=history.pattern(key).evidence,
            )


def expected_variance(tally: SuccessCount) -> float:
    """Return the posterior mean of 4 p (1 - p), uniform prior: near 0 if settled, 1 at one half."""
    a, b = tally.successes + 1, tally.rollouts - tally.successes + 1
    return 4 * a * b / ((a + b) * (a + b + 1))


def observed_rate(rate: float, flips: float) -> float:
    """Return the observed share of successes at ``rate`` if verdicts flip with rate ``flips``."""
    return rate * (1 - 2 * flips) + flips


def _patterns_to_judge(
    config: SignalsConfig, history: History, visit: GroupSummary
) -> set[PatternKey]:
    """Return the patterns to judge; patterns that occurred only long ago are left out."""
    asked: set[PatternKey] = {("tool", tool) for tool in history.tools}
    asked.update((each.kind, each.pattern) for each in visit.patterns)
    return {key for key in asked if key[0] in config.patterns or not config.patterns}


def _not_rare(share: Share, rare_share: float) -> float:
    """Return the probability of so few occurrences if the share is at least ``rare_share``."""
    count = math.ceil(share.seen - ROUNDING)
    return at_most(count, math.floor(share.visits + ROUNDING), rare_share)


def _probability(value: float) -> str:
    """Return a probability as text that does not round to 1."""
    return f"{value:.3f}" if value < 0.9995 else "0.999+"
