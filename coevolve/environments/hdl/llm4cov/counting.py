"""Counts results of the benchmark CVDP-ECov as the release of LLM4Cov does.

A result passes the simulator if its strict status (`hdl.simulate.summary`) is not ``xrun_failed``,
and has coverage if it is ``success``. It meets its targets if each column that a target names is at
least the target; one that the design does not have is met, except the overall average. Of two
results the better one passes the simulator, then has coverage, then meets its targets, then covers
more on average.

Over n samples of an item, ``@1`` is their mean and ``@k``, with k = min(n, 5), whether any of them
passed, or the best coverage; not the unbiased estimator of `hdl.evaluation.measures`. Over items,
both are means. ``mean_sim_pass_cov`` is the mean coverage of the samples with the same number that
pass the simulator: ``@1`` is its mean over these numbers, ``@k`` its maximum. Names and layout are
those of the file that their ``batch_query_eval.py`` writes.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import cast

import msgspec

from coevolve.environments.hdl.llm4cov.items import OVERALL, Item, Target
from coevolve.environments.hdl.policy.transition import Graded
from coevolve.environments.hdl.simulate.messages import Covered, Point, Unit
from coevolve.environments.hdl.simulate.summary import rows, status, strict_outcome, strict_status
from protocols.errors import ConfigError

K = 5
METRICS = ("is_pass_xrun", "has_coverage", "overall_coverage", "is_pass_targets")
KINDS = {"non_agentic": "cvdp_copilot_", "agentic": "cvdp_agentic_"}
"""Kinds of items by how their ids begin."""

Row = Mapping[str, object]
At = dict[str, float]
"""A score at 1 and at k, as ``@1`` and ``@k``."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a sample scored; by default that of one without a testbench."""

    is_pass_xrun: bool = False
    has_coverage: bool = False
    overall_coverage: float = 0.0
    """Overall average of the design, 0..1."""

    is_pass_targets: bool = False

    @property
    def rank(self) -> tuple[bool, bool, bool, float]:
        """The order of results, the best last."""
        ran = self.is_pass_xrun, self.has_coverage
        return (*ran, self.is_pass_targets, self.overall_coverage)


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of one way to write testbenches; shares are 0..1."""

    pass_k: int
    metrics: dict[str, At]
    pass_targets_non_agentic: At
    pass_targets_agentic: At


def result(state: Graded, item: Item, unit: Unit, points: Sequence[Point]) -> Result:
    """Return the result of a testbench."""
    outcome = strict_outcome(state.outcome)
    name = strict_status(status(outcome))
    if not isinstance(outcome, Covered):
        return Result(is_pass_xrun=name != "xrun_failed")
    found = rows(unit, points, outcome.coverage)
    return Result(
        is_pass_xrun=True,
        has_coverage=True,
        overall_coverage=cast("float", found[0][OVERALL]),
        is_pass_targets=all(meets(target, item, found) for target in item.targets),
    )


def meets(target: Target, item: Item, found: Sequence[Row]) -> bool:
    """Return whether the rows meet a target that `check_targets` let pass."""
    row = found[0]
    if target.inst_name != item.dut_instance_name:
        row = next(each for each in found if each["name"] == target.inst_name)
    value = row.get(target.metric)
    if value is None:
        return target.metric != OVERALL
    return cast("float", value) * 100 >= target.target_percentage


def check_targets(item: Item, points: Sequence[Point]) -> None:
    """Raise ConfigError for a target of an instance that the design does not have."""
    known = {item.dut_instance_name, *(each.instance.rpartition(".")[2] for each in points)} - {""}
    for target in item.targets:
        if target.inst_name not in known:
            raise ConfigError(
                f"{item.id}: a target needs one of the instances {', '.join(sorted(known))}, found "
                f"{target.inst_name!r}; name one of them in the row"
            )


def counted(samples: Mapping[str, Sequence[Result]]) -> Counts:
    """Return the scores of at least one item's samples, by id; each item has equally many."""
    number = len(next(iter(samples.values())))
    k = min(number, K)
    each = {
        metric: {
            item: _at([getattr(x, metric) for x in found], k) for item, found in samples.items()
        }
        for metric in METRICS
    }
    metrics = {metric: _mean(list(scores.values()), k) for metric, scores in each.items()}
    passed = each["is_pass_targets"]
    kinds = {
        kind: _mean([at for item, at in passed.items() if item.startswith(begins)], k)
        for kind, begins in KINDS.items()
    }
    return Counts(
        pass_k=k,
        metrics=metrics | {"mean_sim_pass_cov": _ran(list(samples.values()), k)},
        pass_targets_non_agentic=kinds["non_agentic"],
        pass_targets_agentic=kinds["agentic"],
    )


def _at(values: Sequence[float], k: int) -> At:
    """Return the mean and the maximum, which is the mean of a single value."""
    return {f"@{k}": float(max(values)), "@1": fmean(values)}


def _mean(scores: Sequence[At], k: int) -> At:
    """Return the mean scores; 0 without any."""
    names = (f"@{k}", "@1")
    return {at: fmean(each[at] for each in scores) if scores else 0.0 for at in names}


def _ran(samples: Sequence[Sequence[Result]], k: int) -> At:
    """Return the mean coverage of samples that pass the simulator."""
    numbered = [
        [each.overall_coverage for each in numbered if each.is_pass_xrun]
        for numbered in zip(*samples, strict=True)
    ]
    means = [fmean(values) for values in numbered if values]
    return _at(means or [0.0], k)
