"""The rules about regions of a design: which were forgotten, which are rare.

Source: CoEvolve (arXiv 2604.15840), its signals; here their patterns are coverage points. The
coverage of a region is that of its least covered point.

- *Forgetting* compares the first group of a chain with first groups of older versions on the same
  task, pooled over ``signals.window``; later groups start from earlier testbenches. A region is
  forgotten if all its points were covered before and some point is no longer covered by any
  rollout. With ``rules: posterior`` the probability of that by chance has to be below
  ``signals.false_discovery``, over all points that could be forgotten (Bonferroni); ``paper`` has
  no further condition.
- *Rare* uses the last ``signals.window`` groups on the design, whatever their task. A region is
  rare if less than ``signals.rare_share`` of the rollouts covered it, with ``posterior`` at
  ``signals.confidence``. Deviation: a region that was never covered is rare too, with score 1, as
  the next one to cover. Rollouts of one group are similar, so this confidence is only good for a
  ranking; admission by execution decides.
"""

from collections.abc import Sequence
from math import comb

import numpy as np
from numpy.typing import NDArray

from coevolve.environments.hdl.coverage.regions import Region, about
from coevolve.environments.hdl.evolution.messages import DesignSummary
from coevolve.signals.probability import at_most
from coevolve.signals.rules import Finding
from protocols.evolution_config import SignalsConfig

Counts = NDArray[np.int64]


def counts_of(visits: Sequence[DesignSummary], points: int) -> Counts:
    """Return for each point how many rollouts of all summaries covered it."""
    total = np.zeros(points, np.int64)
    for visit in visits:
        if visit.details.counts:
            total += np.frombuffer(visit.details.counts, "<u2", count=points)
    return total


def forgotten(
    config: SignalsConfig,
    earlier: Sequence[DesignSummary],
    visit: DesignSummary,
    found: Sequence[Region],
    points: int,
) -> list[Finding]:
    """Return the forgotten regions, strongest first."""
    before, now = counts_of(earlier, points), counts_of([visit], points)
    rollouts = sum(each.group.rollouts for each in earlier)
    could_be = [each for each in found if before[list(each.points)].min() > 0]
    tested = sum(len(region.points) for region in could_be)
    limit = config.false_discovery / max(1, tested) if config.rules == "posterior" else 1.0
    made: list[Finding] = []
    for region in could_be:
        lost = [point for point in region.points if not now[point]]
        hits = max((int(before[point]) for point in lost), default=0)
        chance = comb(rollouts, hits) / comb(rollouts + visit.group.rollouts, hits)
        if lost and chance <= limit:
            rule = (
                f"{config.rules} forgetting: {len(lost)} of {len(region.points)} points lost, "
                f"{hits}/{rollouts} before, 0/{visit.group.rollouts} now, by chance {chance:.2g}"
            )
            score = hits / rollouts
            made.append(_finding(visit.details.design, region, score, rule, visit.group.evidence))
    return sorted(made, key=lambda finding: -finding.score)


def rare(
    config: SignalsConfig, visits: Sequence[DesignSummary], found: Sequence[Region], points: int
) -> list[Finding]:
    """Return the rare regions of the summaries' one design; the newest summary comes last.

    Regions that were covered and regions that never were alternate, the rarer ones first.
    """
    counts = counts_of(visits, points)
    rollouts = sum(each.group.rollouts for each in visits)
    seen: list[Finding] = []
    never: list[Finding] = []
    for region in found:
        hits = int(counts[list(region.points)].min())
        if hits / rollouts >= config.rare_share or not _sure(config, hits, rollouts):
            continue
        shown = _evidence(visits, region, points)
        rule = f"{config.rules} rare: {hits}/{rollouts} rollouts, rare_share {config.rare_share:g}"
        score = 1 - hits / rollouts / config.rare_share
        (seen if hits else never).append(
            _finding(visits[-1].details.design, region, score, rule, shown)
        )
    seen.sort(key=lambda finding: -finding.score)
    return _in_turns(seen, never)


def _sure(config: SignalsConfig, hits: int, rollouts: int) -> bool:
    doubt = at_most(hits, rollouts, config.rare_share)
    return config.rules == "paper" or doubt <= 1 - config.confidence


def _evidence(visits: Sequence[DesignSummary], region: Region, points: int) -> tuple[int, ...]:
    """Return the newest summary's rollouts that may have covered the region, else the newest."""
    for visit in reversed(visits):
        if counts_of([visit], points)[list(region.points)].min() > 0:
            return visit.group.evidence
    return visits[-1].group.evidence


def _in_turns(one: Sequence[Finding], other: Sequence[Finding]) -> list[Finding]:
    both = min(len(one), len(other))
    turns = [finding for pair in zip(one, other, strict=False) for finding in pair]
    return [*turns, *one[both:], *other[both:]]


def _finding(
    design: str, region: Region, score: float, rule: str, evidence: tuple[int, ...]
) -> Finding:
    return Finding(about=about(design, region), score=score, rule=rule, evidence=evidence)
