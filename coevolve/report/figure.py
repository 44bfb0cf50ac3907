"""The elements of a section: charts with their tables, tables alone, and notes on missing data."""

from collections.abc import Sequence
from dataclasses import dataclass

from coevolve.report.markup import Markup, joined, tag

Row = Sequence[str]


@dataclass(frozen=True)
class Table:
    """A table. Each cell is text or markup."""

    caption: str
    columns: Row
    rows: Sequence[Row]
    words: int = 1
    """Number of columns on the left that hold words. The others hold numbers, aligned right."""

    sortable: bool = False
    """Whether the page's script lets a reader sort and filter the rows."""

    def markup(self) -> Markup:
        """Return the table with a caption, column headers and row headers."""
        kind = {"data_sortable": ""} if self.sortable else {}
        kinds = [{} if n < self.words else {"class_": "number"} for n in range(len(self.columns))]
        names = zip(self.columns, kinds, strict=True)
        head = tag("tr", *(tag("th", name, scope="col", **each) for name, each in names))
        return tag(
            "div",
            tag(
                "table",
                tag("caption", self.caption),
                tag("thead", head),
                tag("tbody", *map(self._row, self.rows)),
            ),
            class_="scroll",
            tabindex="0",
            role="group",
            aria_label=self.caption,
            **kind,
        )

    def _row(self, row: Row) -> Markup:
        cells: list[str] = [tag("th", row[0], scope="row")]
        for place, text in enumerate(row[1:], 1):
            kind = {} if place < self.words else {"class_": "number"}
            cells.append(tag("td", text, **kind))
        return tag("tr", *cells)


def section(name: str, title: str, *children: str) -> Markup:
    """Return a section of the page; links reach it as ``#name``."""
    return tag("section", tag("h2", title, id=name), *children, aria_labelledby=name)


def folded(name: str, title: str, line: str, *children: str) -> Markup:
    """Return a section of one line that a click, a link into it, a search or a print unfolds.

    Without children it is the line alone, which says why there is nothing to show.
    """
    head = (tag("h2", title, id=name), tag("span", line))
    inside = (
        tag("details", tag("summary", *head), tag("div", *children, class_="body"))
        if children
        else tag("div", *head, class_="bare")
    )
    return tag("section", inside, class_="fold", aria_labelledby=name)


def figure(title: str, note: str, chart: Markup, table: Table) -> Markup:
    """Return a chart with a title and a note; its numbers are in a table that opens on a click."""
    return tag(
        "figure",
        tag("figcaption", tag("h3", title), *paragraphs(note)),
        chart,
        tag("details", tag("summary", "the numbers"), table.markup()),
    )


def listed(title: str, note: str, table: Table) -> Markup:
    """Return a table with a title and a note, and no chart."""
    return tag("div", tag("h3", title), *paragraphs(note), table.markup(), class_="listed")


def paragraphs(*texts: str) -> list[str]:
    """Return a paragraph for each text that is not empty."""
    return [tag("p", text) for text in texts if text]


def missing(sentence: str) -> Markup:
    """Return a paragraph that says why there is nothing to show."""
    return tag("p", sentence, class_="missing")


def code(text: str) -> Markup:
    """Return ``text`` in a fixed-width font."""
    return tag("code", text)


def several(parts: Sequence[str]) -> Markup:
    """Return the parts, separated by commas."""
    spaced: list[str] = []
    for part in parts:
        spaced.extend((", ", part) if spaced else (part,))
    return joined(spaced)
