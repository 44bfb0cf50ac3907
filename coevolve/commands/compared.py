"""What a study's runs say about its arms: tables for the terminal, and a page with their curves."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean

import rich.table

from coevolve.base.durable_files import replace_file
from coevolve.base.terminal import Terminal
from coevolve.commands.compare import Outcome, Outcomes
from coevolve.commands.contrasts import contrasts_of, gap_share
from coevolve.commands.intervals import interval, told
from coevolve.commands.study import Study
from coevolve.report.figure import Table
from coevolve.report.markup import Markup, tag
from coevolve.report.page import document
from coevolve.report.pictures import Point, Trace, averaged, legend, plot

PAGE = "index.html"
"""The page's file in the folder of a study's runs."""

Results = Mapping[tuple[str, int], float]
"""The end of each run by arm and seed, in per cent."""


def tables(study: Study, outcomes: Outcomes) -> Sequence[Table]:
    """Return scores, contrasts, what the arms cost and made, and how far apart their tasks are."""
    results = {key: each.result(study.last_scores) for key, each in outcomes.items()}
    of = {arm: [each for (a, _), each in outcomes.items() if a == arm] for arm in study.arms}
    return (
        _scores(study, of, results),
        _contrasts(study, results),
        _costs(of),
        _treatment(of),
        *_versions(outcomes),
    )


def print_tables(every: Sequence[Table], console: Terminal) -> None:
    for each in every:
        table = rich.table.Table(*each.columns, title=each.caption)
        for row in each.rows:
            table.add_row(*row)
        console.print(table)


def write_page(
    name: str, study: Study, outcomes: Outcomes, every: Sequence[Table], folder: Path
) -> Path:
    """Write the page of a study into the folder of its runs; return its file. Raises OSError."""
    title = f"Arms compared: {name}"
    arms = (
        tag("li", tag("b", arm), f": {' '.join(changed) or 'the run file as it is'}")
        for arm, changed in study.arms.items()
    )
    text = document(
        title,
        tag("header", tag("h1", title)),
        tag("main", _curves(study, outcomes), tag("ul", *arms), *(t.markup() for t in every)),
    )
    replace_file(folder / PAGE, text.encode())
    return folder / PAGE


def _curves(study: Study, outcomes: Outcomes) -> Markup:
    traces = [
        Trace(arm, list(_points([each.scores for (a, _), each in outcomes.items() if a == arm])), n)
        for n, arm in enumerate(study.arms)
    ]
    title = f"Held-out score of {study.run_file} by arm"
    note = "The mean over the runs of an arm; the band is one standard error over these runs."
    picture = plot(title, traces, across="step")
    return tag("div", tag("h2", title), picture, legend(traces), tag("p", note), class_="panel")


def _points(runs: Sequence[Mapping[int, float]]) -> Iterator[Point]:
    """Yield the mean of an arm's scores, 0..1, at the versions that each of its runs scored."""
    for version in sorted(set[int].intersection(*map(set, runs))):
        yield averaged(version, [run[version] for run in runs])


def _scores(study: Study, of: Mapping[str, Sequence[Outcome]], results: Results) -> Table:
    ends = {arm: [end for (name, _), end in results.items() if name == arm] for arm in of}
    rows = [
        (
            arm,
            f"{fmean(100 * each.scores[min(each.scores)] for each in runs):.1f}",
            told(interval(ends[arm]), ".1f"),
            told(gap_share(results, arm, *study.gap), ".2f") if study.gap else "",
            f"{fmean(each.result(len(each.scores)) for each in runs):.1f}",
        )
        for arm, runs in of.items()
    ]
    columns = ("arm", "start", "end", "share of the gap", "all scores")
    return Table(f"Score, %; end: mean of the last {study.last_scores}", columns, rows)


def _contrasts(study: Study, results: Results) -> Table:
    rows = [
        (
            f"{each.arm} - {each.other}",
            str(len(each.differences)),
            told(each.bounds),
            f"{each.p:.3f}",
            f"{each.holm:.3f}",
            f"{each.detectable:.1f}",
            each.verdict,
        )
        for each in contrasts_of(results, study.contrasts)
    ]
    columns = ("contrast", "pairs", "mean", "p", "p (Holm)", "detectable", "it says")
    return Table("Differences, points, paired by seed", columns, rows)


def _costs(of: Mapping[str, Sequence[Outcome]]) -> Table:
    counted: Mapping[str, Callable[[Outcome], int]] = {
        "rollouts": lambda run: run.rollouts,
        "tokens": lambda run: run.tokens,
        "calls": lambda run: run.calls,
        "made tasks": lambda run: sum(run.made.values()),
    }
    rows = [
        (arm, *(f"{fmean(map(count, runs)):,.0f}" for count in counted.values()), _signals(runs))
        for arm, runs in of.items()
    ]
    return Table("Means of a run", ("arm", *counted, "signals"), rows)


def _signals(runs: Sequence[Outcome]) -> str:
    kinds = Counter[str]()
    for each in runs:
        kinds.update(each.signals)
    return ", ".join(f"{kind} {count / len(runs):.0f}" for kind, count in sorted(kinds.items()))


def _treatment(of: Mapping[str, Sequence[Outcome]]) -> Table:
    """Return how different the arms' made tasks are: total variation over their skills."""
    made = {arm: [each.made for each in runs] for arm, runs in of.items()}
    shown = [arm for arm, every in made.items() if any(every)]
    rows = [
        (arm, *(f"{_apart(made[arm], made[other], arm == other):.2f}" for other in shown))
        for arm in shown
    ]
    return Table("Total variation between runs' made tasks, 0..1", ("arm", *shown), rows)


def _versions(outcomes: Outcomes) -> Iterator[Table]:
    """Yield which runs which code made, if several did: a setting may mean something else since."""
    by_code: dict[str, list[str]] = {}
    for (arm, seed), each in outcomes.items():
        by_code.setdefault(each.code or "unknown", []).append(f"{arm} {seed}")
    if len(by_code) > 1:
        rows = [(code, str(len(runs)), ", ".join(runs)) for code, runs in by_code.items()]
        yield Table("Not one code made all runs", ("code", "runs", "which"), rows)


def _apart(
    ones: Sequence[Mapping[str, int]], others: Sequence[Mapping[str, int]], is_same: bool
) -> float:
    pairs = combinations(ones, 2) if is_same else zip(ones, others, strict=True)
    return fmean(total_variation(one, other) for one, other in pairs)


def total_variation(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """Return half the sum of the differences of shares; 0 for equal shares, 1 for disjoint ones."""
    total, of_other = sum(one.values()), sum(other.values())
    if not (total and of_other):
        return float(total != of_other)
    names = {*one, *other}
    return sum(abs(one.get(n, 0) / total - other.get(n, 0) / of_other) for n in names) / 2
