"""The board's own pages: the list of runs, and a comparison of some of them.

Their links are relative, because the first part of each address is the board's key.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from urllib.parse import quote

from scipy import stats

from coevolve.board.overview import Overview
from coevolve.history.scales import percent
from coevolve.history.score import Score
from coevolve.history.series import RunSeries
from coevolve.report.figure import Table, listed, section
from coevolve.report.markup import Markup, joined, tag
from coevolve.report.page import document
from coevolve.report.pictures import Trace, averaged, legend, plot, scored, spark
from coevolve.report.scripts import data_block, library, own
from coevolve.report.sections.metrics import curves_of, metrics_data
from coevolve.report.sentences import moment

COLUMNS = (
    "run",
    "state",
    "step",
    "curve",
    "held-out score",
    "at the start",
    "arm",
    "seed",
    "newest",
    "note",
)


def list_page(root: str, runs: Sequence[Overview]) -> str:
    rows = tag("tbody", *map(_row, runs), id="runs")
    head = tag("tr", *(tag("th", name, scope="col") for name in ("compare", *COLUMNS)))
    caption = tag("caption", f"Runs in {root}, the newest start first")
    table = tag("table", caption, tag("thead", head), rows)
    scroll = tag("div", table, class_="scroll", tabindex="0", role="group", aria_label="Runs")
    compare = tag("button", "Compare the chosen runs", type="submit")
    empty = "" if runs else tag("p", "There is no run here yet.", class_="missing")
    return document(
        "Runs",
        tag("header", tag("h1", "Runs"), tag("p", "", id="live", role="status")),
        tag(
            "main",
            *arms_pictures(runs),
            tag("form", scroll, empty, tag("p", compare), action="compare"),
        ),
        scripts=[own("board")],
        board="'self'",
    )


def cells(run: Overview) -> list[str]:
    """Return the texts of a run's row, by `COLUMNS`, and its curve as markup."""
    return [
        run.name,
        run.state,
        f"{run.step} of {run.steps}" if run.steps else "",
        _spark(run),
        _scored(run.newest),
        _scored(run.first),
        run.arm,
        str(run.seed) if run.arm else "",
        moment(run.newest_ns),
        run.note,
    ]


def compare_page(runs: Sequence[Overview], series: Sequence[RunSeries]) -> str:
    """Return the page that compares runs: their scores, arms with intervals, and all metrics."""
    names = ", ".join(run.name for run in runs)
    return document(
        f"Comparison of {names}",
        tag("header", tag("p", tag("a", "All runs", href=".")), tag("h1", "Comparison of runs")),
        tag(
            "main",
            section("scores", "Held-out scores", *arms_pictures(runs), _scores(runs), _arms(runs)),
            section("metrics", "Every metric", *curves_of(series)),
            tag("p", "", id="live", role="status"),
        ),
        data_block("curves", metrics_data(series)),
        scripts=[library(), own("charts"), own("curves"), own("live")],
        board="'self'",
    )


def failure_page(sentence: str, home: str = "") -> str:
    """Return a page that says what is wrong; ``home`` is the address of the list of runs."""
    back = tag("p", tag("a", "All runs", href=home)) if home else ""
    return document(
        "Error", tag("main", tag("h1", "This cannot be shown"), tag("p", sentence), back)
    )


def arms(runs: Sequence[Overview]) -> Mapping[str, tuple[int, float, float | None]]:
    """Return, by arm, its number of scored runs, their mean score and the half-width.

    The half-width is that of the 95 % interval of the mean over runs (Student's t); None for one
    run.
    """
    scores: dict[str, list[float]] = {}
    for run in runs:
        if run.newest is not None:
            scores.setdefault(run.arm, []).append(run.newest.mean)
    return {arm: (len(found), fmean(found), _half_width(found)) for arm, found in scores.items()}


def arms_pictures(runs: Sequence[Overview]) -> list[Markup]:
    """Return one picture for each environment and measure of which several runs are scored."""
    found: dict[tuple[str, str], list[Overview]] = {}
    for run in runs:
        if run.scores:
            found.setdefault((run.environment, run.measure), []).append(run)
    return [_picture(*key, each) for key, each in sorted(found.items()) if len(each) > 1]


def _picture(environment: str, measure: str, runs: Sequence[Overview]) -> Markup:
    arms_of = sorted({run.arm for run in runs})
    traces = [
        _trace(arm, place, [run for run in runs if run.arm == arm])
        for place, arm in enumerate(arms_of)
    ]
    title = f"Held-out {measure} by arm: {environment}"
    note = (
        "The mean over the runs of an arm, at the versions that all of them scored; the band is "
        "one standard error over these runs, or of one run over its tasks."
    )
    return tag(
        "div",
        tag("h2", title),
        plot(title, traces, across="step"),
        legend(traces),
        tag("p", note),
        class_="panel",
    )


def _trace(arm: str, colour: int, runs: Sequence[Overview]) -> Trace:
    """Return the mean of an arm's runs at the versions that each of them scored."""
    name = f"{arm} ({len(runs)} run{'s' * (len(runs) > 1)})"
    if len(runs) == 1:
        return Trace(name, [scored(at, score) for at, score in runs[0].scores.items()], colour)
    points = [
        averaged(version, [run.scores[version].mean for run in runs])
        for version in runs[0].scores
        if all(version in run.scores for run in runs)
    ]
    return Trace(name, points, colour)


def _half_width(found: Sequence[float]) -> float | None:
    freedom = len(found) - 1
    if freedom < 1:
        return None
    return float(stats.t.ppf(0.975, freedom)) * stdev(found) / math.sqrt(len(found))


def _scores(runs: Sequence[Overview]) -> Markup:
    rows = [
        [
            tag("a", run.name, href=f"runs/{quote(run.name)}"),
            run.arm,
            str(run.seed),
            "" if run.version is None else str(run.version),
            _scored(run.newest),
        ]
        for run in runs
    ]
    note = "Of the newest scored version, with its standard error over the choice of tasks."
    columns = ["run", "arm", "seed", "version", "score"]
    return listed("By run", note, Table("Scores by run", columns, rows, words=2))


def _arms(runs: Sequence[Overview]) -> Markup:
    rows = [
        [arm, str(count), percent(mean), f"± {100 * half:.1f}" if half is not None else "one run"]
        for arm, (count, mean, half) in arms(runs).items()
    ]
    note = (
        "The mean over the runs of an arm, with the half-width of its 95 % interval (Student's t). "
        "Two arms whose intervals overlap may still differ: compare more seeds."
    )
    columns = ["arm", "runs", "mean score", "points"]
    return listed("By arm", note, Table("Scores by arm", columns, rows))


def _spark(run: Overview) -> Markup:
    means = [score.mean for score in run.scores.values()]
    ends = [f"{100 * mean:.0f} %" for mean in (means[0], means[-1])] if means else []
    return spark(means, f"from {' to '.join(ends)}")


def _scored(score: Score | None) -> str:
    return "" if score is None else score.percent


def _row(run: Overview) -> Markup:
    name, *others = cells(run)
    box = tag(
        "input", type="checkbox", name="run", value=name, aria_label=f"Compare the run {name}"
    )
    link = tag("th", tag("a", name, href=f"runs/{quote(name)}"), scope="row")
    told = [
        tag("td", text, class_="sparks") if isinstance(text, Markup) else tag("td", text)
        for text in others
    ]
    return tag("tr", tag("td", box), link, joined(told), data_run=name)
