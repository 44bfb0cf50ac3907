"""The section with annotated source texts: what rollouts reached, line by line."""

from coevolve.history.annotated_source import AnnotatedSource, SourceLine
from coevolve.history.run_history import RunHistory
from coevolve.report.figure import Table, code, folded
from coevolve.report.markup import Markup, clipped, tag

TITLE = "Annotated sources"
COLUMNS = ("line", "reached", "newest group", "source", "reached by no rollout")
TEXT = 200
NAMED = 4
"""Maximum number of missed points that a line names."""


def sources_section(data: RunHistory) -> Markup:
    """Return a table of lines for each source, the least covered source first."""
    if not data.sources:
        none = "The environment of this run has no sources whose coverage it records."
        return folded("sources", TITLE, none)
    note = (
        "For each line: the coverage points that any rollout of the policy reached, of all on the "
        "line, and those that its newest group reached."
    )
    told = map(_source, sorted(data.sources, key=_share))
    return folded("sources", TITLE, f"{len(data.sources)} sources.", tag("p", note), *told)


def _source(source: AnnotatedSource) -> Markup:
    reached, points = _totals(source)
    heading = f"{source.name}: {reached} of {points} points, {source.groups} groups"
    rows = [_row(number, line) for number, line in enumerate(source.lines, 1)]
    table = Table(f"Lines of {source.name}", COLUMNS, rows, words=len(COLUMNS), sortable=True)
    return tag("details", tag("summary", heading), table.markup())


def _row(number: int, line: SourceLine) -> list[str]:
    named = ", ".join(line.missed[:NAMED])
    left = len(line.missed) - NAMED
    return [
        str(number),
        _mark(line.reached, line.points),
        f"{line.newest} of {line.points}" if line.points else "",
        code(clipped(line.text, TEXT)),
        clipped(f"{named} and {left} more" if left > 0 else named, TEXT),
    ]


def _mark(reached: int, points: int) -> str:
    if not points:
        return ""
    kind = "all" if reached == points else "some" if reached else "none"
    return tag("span", f"{reached} of {points}", class_=f"reached-{kind}")


def _totals(source: AnnotatedSource) -> tuple[int, int]:
    return sum(each.reached for each in source.lines), sum(each.points for each in source.lines)


def _share(source: AnnotatedSource) -> float:
    reached, points = _totals(source)
    return reached / points if points else 1.0
