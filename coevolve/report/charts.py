"""The charts of the report, as specifications of Vega-Lite that the page's script draws.

Colours are variables of the page's style sheet, so a chart follows the reader's theme.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coevolve.report.figure import Table, figure
from coevolve.report.markup import Markup, tag
from coevolve.report.scripts import visible_tree

NUMBER = ",.3~r"
COUNT = ",d"
PERCENT = ".1%"
WHOLE_PERCENT = ".0%"
"""Formats of numbers, in the words of d3-format."""

COLOURS = [f"var(--c{number})" for number in range(7)]
DASHES = [[1, 0], [7, 3], [2, 2], [9, 3, 2, 3]]
HEIGHT = 230
ROW = 20
STRONGEST = 0.6
"""Opacity of a share of 100 %, low enough that the number on top stays readable."""

NAME = 200
"""Maximum width of the name of a row, in pixels."""

Cell = tuple[int, int]
"""Successes and attempts."""

Spec = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """One series."""

    name: str
    points: tuple[tuple[float, float], ...]
    bounds: tuple[tuple[float, float], ...] = ()
    """Lower and upper bound of each point, drawn as a band; empty if there are none."""

    strong: bool = False
    """Whether the line is drawn thicker than the others."""


@dataclass(frozen=True)
class Layer:
    """One series of stacked columns."""

    name: str
    amounts: tuple[float, ...]
    """One amount per column."""


def line_chart(
    title: str,
    lines: Sequence[Line],
    *,
    across: str,
    up: str,
    high: float | None = None,
    form: str = NUMBER,
) -> Markup:
    """Draw ``lines`` over axes that begin at 0; ``across`` and ``up`` are the axes' titles.

    ``high`` is the top of the vertical axis; the default is a round value above all points.
    """
    values = [
        {"line": line.name, "x": x, "y": y, "strong": line.strong, **_bounds(line, place)}
        for line in lines
        for place, (x, y) in enumerate(line.points)
    ]
    shown = [line.name for line in lines if line.points]
    along = {"field": "x", "type": "quantitative", "title": across}
    scale = {"zero": True} if high is None else {"domain": [0, high]}
    y = {"field": "y", "type": "quantitative", "title": up, "scale": scale, "axis": _axis(form)}
    axis = {"format": NUMBER, "tickMinStep": 1, "grid": False}
    told = [{"field": "line", "title": "line"}, along, {**y, "format": form}]
    return _chart(
        title,
        values,
        {
            "height": HEIGHT,
            "encoding": {
                "x": {**along, "axis": axis},
                "color": {**_coloured("line", shown), "legend": _legend()},
            },
            "layer": [
                _band(up),
                {"mark": "line", "encoding": {"y": y, **_stroke(shown)}},
                {
                    "mark": {"type": "point", "filled": True, "size": 30},
                    "encoding": {"y": y, "tooltip": told},
                },
            ],
        },
    )


def _band(up: str) -> Spec:
    """Return the layer of the points' bounds."""
    low = {"field": "low", "type": "quantitative", "title": up}
    return {
        "transform": [{"filter": "isValid(datum.low)"}],
        "mark": {"type": "area", "opacity": 0.25},
        "encoding": {"y": low, "y2": {"field": "high"}},
    }


def _stroke(names: Sequence[str]) -> Spec:
    """Return how lines differ, besides their colours."""
    dashes = [DASHES[place // len(COLOURS) % len(DASHES)] for place in range(len(names))]
    scale = {"domain": list(names), "range": dashes}
    return {
        "strokeDash": {"field": "line", "legend": _legend(), "scale": scale},
        "strokeWidth": {"condition": {"test": "datum.strong", "value": 3.5}, "value": 2},
    }


def stacked_chart(
    title: str, columns: Sequence[str], layers: Sequence[Layer], *, across: str, up: str
) -> Markup:
    """Draw one column for each name in ``columns``, the first layer at the bottom."""
    values = [
        {"column": column, "layer": layer.name, "amount": layer.amounts[place], "order": order}
        for place, column in enumerate(columns)
        for order, layer in enumerate(layers)
        if layer.amounts[place] > 0
    ]
    amount = {"field": "amount", "type": "quantitative", "title": up}
    named = {"field": "column", "title": across, "type": "ordinal"}
    axis = {"labelOverlap": True, "labelAngle": 0}
    coloured = _coloured("layer", [layer.name for layer in layers])
    return _chart(
        title,
        values,
        {
            "height": HEIGHT,
            "mark": "bar",
            "encoding": {
                "x": {**named, "sort": None, "scale": {"domain": list(columns)}, "axis": axis},
                "y": {**amount, "axis": _axis(NUMBER)},
                "color": {**coloured, "legend": _legend()},
                "order": {"field": "order"},
                "tooltip": [
                    named,
                    {"field": "layer", "title": "part"},
                    {**amount, "format": NUMBER},
                ],
            },
        },
    )


def stacked_figure(
    title: str,
    note: str,
    columns: Sequence[str],
    layers: Sequence[Layer],
    *,
    across: str,
    up: str,
    shown: Callable[[float], str] = str,
) -> Markup:
    """Return `stacked_chart` with a note and its numbers, which ``shown`` writes."""
    rows = [[n, *(shown(x.amounts[i]) for x in layers)] for i, n in enumerate(columns)]
    table = Table(title, [across, *(layer.name for layer in layers)], rows)
    return figure(title, note, stacked_chart(title, columns, layers, across=across, up=up), table)


def row_chart(title: str, rows: Sequence[tuple[str, float]], *, form: str = NUMBER) -> Markup:
    """Draw a horizontal bar for each (name, amount) and write the amount at its end."""
    values = [{"name": name, "amount": amount} for name, amount in rows]
    amount = {"field": "amount", "type": "quantitative"}
    name = {"field": "name", "sort": None, "title": None}
    axis = {"labelLimit": NAME, "ticks": False, "domain": False}
    return _chart(
        title,
        values,
        {
            "height": ROW * max(1, len(rows)),
            "encoding": {
                "y": {**name, "axis": axis, "type": "nominal"},
                "x": {**amount, "axis": None, "scale": {"domainMin": 0, "nice": True}},
                "tooltip": [name, {**amount, "format": form}],
            },
            "layer": [
                {"mark": {"type": "bar", "color": COLOURS[0]}},
                {
                    "mark": {"type": "text", "align": "left", "dx": 5},
                    "encoding": {"text": {**amount, "format": form}},
                },
            ],
        },
    )


def heat_map(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Mapping[tuple[str, str], Cell],
    *,
    across: str,
) -> Markup:
    """Draw the share of successes of each (row, column). A pair without attempts stays empty."""
    values = [
        {"row": row, "column": column, "share": done / tried, "told": f"{done} of {tried}"}
        for row in rows
        for column in columns
        for done, tried in [cells.get((row, column), (0, 0))]
        if tried
    ]
    share = {"field": "share", "type": "quantitative", "legend": None}
    row = {"field": "row", "type": "nominal", "sort": None, "title": None}
    column = {"field": "column", "type": "ordinal", "sort": None, "title": across}
    text = [{"calculate": "round(100 * datum.share)", "as": "percent"}]
    down = {"scale": {"domain": list(rows)}, "axis": {"labelLimit": NAME, "ticks": False}}
    along = {"scale": {"domain": list(columns)}, "axis": {"labelAngle": 0, "labelOverlap": True}}
    opacity = {"domain": [0, 1], "range": [0, STRONGEST]}
    return _chart(
        title,
        values,
        {
            "height": ROW * max(1, len(rows)),
            "transform": text,
            "encoding": {"y": {**row, **down}, "x": {**column, **along}},
            "layer": [
                {
                    "mark": {"type": "rect", "fill": "var(--heat)", "stroke": "var(--line)"},
                    "encoding": {
                        "fillOpacity": {**share, "scale": opacity},
                        "tooltip": [row, column, {"field": "told", "title": "successes"}],
                    },
                },
                {"mark": "text", "encoding": {"text": {"field": "percent"}}},
            ],
        },
    )


def _chart(title: str, values: Sequence[Spec], spec: Spec) -> Markup:
    whole = {"data": {"values": list(values)}, **spec}
    text = json.dumps(visible_tree(whole), ensure_ascii=False, separators=(",", ":"))
    return tag("div", class_="chart", role="img", aria_label=title, data_spec=text)


def _bounds(line: Line, place: int) -> Spec:
    if place >= len(line.bounds):
        return {}
    low, high = line.bounds[place]
    return {"low": low, "high": high}


def _axis(form: str) -> Spec:
    return {"format": form, "tickCount": 5, "titleAngle": 0, "titleAlign": "left", "titleY": -8}


def _legend() -> Spec:
    return {"title": None, "orient": "bottom", "columns": 3, "labelLimit": NAME}


def _coloured(field: str, names: Sequence[str]) -> Spec:
    colours = [COLOURS[place % len(COLOURS)] for place in range(len(names))]
    return {"field": field, "type": "nominal", "scale": {"domain": list(names), "range": colours}}
