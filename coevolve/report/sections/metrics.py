"""The section on metrics: each of `metrics.jsonl` as a curve, with its meaning."""

from collections.abc import Mapping, Sequence
from typing import Any

from coevolve.history.metric_docs import Meaning, meaning_of, meanings
from coevolve.history.run_history import RunHistory
from coevolve.history.scales import number
from coevolve.history.series import RunSeries
from coevolve.report.figure import code, folded, missing
from coevolve.report.markup import Markup, tag

DIGITS = 5
"""Significant digits of a number in the page's data."""

TITLE = "Every metric"

OTHER = "Other"
"""Group of metrics that the page about metrics does not explain."""


UNRECORDED = "The run has recorded no metric yet."


def metrics_section(data: RunHistory) -> Markup:
    """Return a curve for each metric, grouped as in the page about metrics."""
    count = sum(map(len, by_group(data.series).values()))
    if not count:
        return folded("metrics", TITLE, UNRECORDED)
    line = f"{count} metrics as curves, each with its meaning."
    return folded("metrics", TITLE, line, *curves_of(data.series))


def curves_of(runs: Sequence[RunSeries]) -> list[Markup]:
    """Return a curve for each metric of the runs, with the settings of all curves."""
    grouped = by_group(runs)
    if not grouped:
        return [missing(UNRECORDED)]
    return [
        tag(
            "p",
            "Each number of metrics.jsonl over steps, or over policy versions for scores. "
            "Drag across a chart to zoom all of them; with the keyboard, set the steps here, and "
            "move along a chart by the left and right arrow keys.",
            *(_width_note(run) for run in runs),
        ),
        _controls(runs),
        *(_group(group, names, runs) for group, names in grouped.items()),
    ]


def metrics_data(runs: Sequence[RunSeries]) -> dict[str, Any]:
    """Return the curves for the page's script."""
    return {
        "runs": [run.name for run in runs],
        "metrics": {
            name: [_columns(run, name) for run in runs]
            for names in by_group(runs).values()
            for name in names
        },
    }


def by_group(runs: Sequence[RunSeries]) -> dict[str, list[str]]:
    """Return the names of the runs' metrics by group, groups and names in the page's order."""
    every = {name for run in runs for name in run.metrics}
    told = {name: meaning_of(name) for name in every - {error_of(each) for each in every}}
    order = {each: place for place, each in enumerate(meanings())}
    found: dict[str, list[str]] = {each.section: [] for each in order} | {OTHER: []}

    def place(name: str) -> tuple[int, str]:
        known = told[name]
        return order[known] if known else len(order), name

    for name in sorted(told, key=place):
        known = told[name]
        found[known.section if known else OTHER].append(name)
    return {group: names for group, names in found.items() if names}


def error_of(name: str) -> str:
    """Return the name of the metric that is the standard error of metric ``name``, if any is.

    A score's is called ``val/success_std_error/all``, that of a gap ends in ``/std_error``.
    """
    if name.endswith("/mean"):
        return f"{name.removesuffix('mean')}std_error"
    kind, slash, measured = name.partition("/")
    measure, labelled, label = measured.partition("/")
    return f"{kind}{slash}{measure}_std_error{labelled}{label}"


def _columns(run: RunSeries, name: str) -> list[list[float]] | None:
    """Return steps, means, and the ends of a band around these, if they have one.

    It is one standard error to both sides; or, if a point has several values, their range.
    """
    series = run.metrics.get(name)
    if series is None:
        return None
    columns = [series.means] if run.width == 1 else [series.means, series.lows, series.highs]
    if error := run.metrics.get(error_of(name)):
        of = dict(zip(error.steps, error.means, strict=True))
        spread = [
            (mean, of.get(at, 0)) for at, mean in zip(series.steps, series.means, strict=True)
        ]
        columns = [series.means, [m - e for m, e in spread], [m + e for m, e in spread]]
    rounded = [[float(f"{value:.{DIGITS}g}") for value in column] for column in columns]
    return [list(series.steps), *rounded]


def _width_note(run: RunSeries) -> str:
    if run.width == 1:
        return ""
    return f" Each point of {run.name} is the mean of {run.width} steps, in a band of their range."


def _controls(runs: Sequence[RunSeries]) -> Markup:
    shown = [
        tag(
            "label",
            tag("input", type="checkbox", value=str(place), checked="", name="run"),
            tag("span", class_=f"swatch s{place % 7}"),
            run.name,
        )
        for place, run in enumerate(runs)
    ]
    return tag(
        "form",
        tag("fieldset", tag("legend", "Runs"), *shown),
        tag(
            "label",
            "Smoothing ",
            tag("input", type="range", name="smoothing", min="0", max="0.98", step="0.02", value=0),
            tag("output", "0", name="smoothed"),
        ),
        tag("label", "Steps from ", tag("input", type="number", name="from", step="1")),
        tag("label", "to ", tag("input", type="number", name="to", step="1")),
        tag("button", "All steps", type="button", name="whole"),
        tag("label", "Find ", tag("input", type="search", name="find", placeholder="entropy")),
        class_="controls",
        id="controls",
        aria_label="Settings of all curves",
    )


def _group(group: str, names: Sequence[str], runs: Sequence[RunSeries]) -> Markup:
    return tag(
        "details",
        tag("summary", f"{group} ({len(names)})"),
        tag("div", *(_curve(name, runs) for name in names), class_="curves"),
        class_="group",
        open="",
    )


def _curve(name: str, runs: Sequence[RunSeries]) -> Markup:
    told = meaning_of(name)
    newest = {run.name: run.metrics[name].newest for run in runs if name in run.metrics}
    unit = tag("small", told.unit) if told and told.unit else ""
    return tag(
        "figure",
        tag("figcaption", tag("h3", code(name), " ", unit), *_meaning(told)),
        tag(
            "div",
            class_="plot",
            tabindex="0",
            role="img",
            aria_label=f"Curve of {name}; {_told(newest)}",
        ),
        tag("output", _told(newest), class_="values"),
        class_="curve",
        data_metric=name,
    )


def _told(newest: Mapping[str, float]) -> str:
    if len(newest) == 1:
        return f"newest {number(*newest.values())}"
    return "newest " + ", ".join(f"{run} {number(value)}" for run, value in newest.items())


def _meaning(told: Meaning | None) -> list[Markup]:
    if told is None:
        return []
    moves = [tag("p", tag("b", "Watch for: "), told.moves)] if told.moves else []
    return [tag("p", told.meaning), *moves]
