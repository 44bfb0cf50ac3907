"""The report page of one testbench on one design: a single HTML file without anything to load.

It shows the verdict, the coverage of each kind, the gaps of the plan, the mutants with those that
went unnoticed first, and each file of the RTL with the points that were missed beside their lines.
"""

from collections.abc import Iterator, Sequence
from html import escape

from coevolve.environments.hdl.coverage.holes import Gap, gaps, reachable
from coevolve.environments.hdl.coverage.lcov import line_hits
from coevolve.environments.hdl.evaluation.mutation import Fate, Mutation
from coevolve.environments.hdl.simulate.messages import Covered, Point, SourceFile, Unit

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem;
  color: #1c2733; background: #fff }
table { border-collapse: collapse } th, td { text-align: left; padding: .15rem .9rem .15rem 0 }
td.n { text-align: right } code, pre { font: 13px/1.45 ui-monospace, monospace }
.source td { padding: 0 .6rem; white-space: pre; vertical-align: top }
.hit { background: #e5f4e8 } .missed { background: #fbe3e1 } .note { color: #8c2f24 }
@media (prefers-color-scheme: dark) { body { color: #dde4ea; background: #14191f }
  .hit { background: #16321d } .missed { background: #431d1a } .note { color: #f0a79e } }
"""
_FATES: dict[Fate, str] = {
    "missed": "missed: not even outputs changed",
    "shown": "unnoticed: outputs changed, no check failed",
    "noticed": "noticed",
}


def page(unit: Unit, points: Sequence[Point], outcome: Covered, mutation: Mutation | None) -> str:
    """Return the page. ``mutation`` is None without mutants."""
    found = [gap for each in gaps(points, outcome.coverage, unit).values() for gap in each]
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(unit.name)}</title>",
        f"<meta name=viewport content='width=device-width'><style>{STYLE}</style>",
        f"<h1>{escape(unit.name)}</h1>",
        *_verdict(outcome),
        *_kinds(outcome),
        *_plan(unit, [gap for gap in found if gap.metric == "plan"]),
        *(_mutants(mutation) if mutation else ()),
    ]
    for file in unit.files:
        parts += _source(
            file, unit, points, outcome, [gap for gap in found if gap.file == file.name]
        )
    return "\n".join([*parts, "</html>", ""])


def _verdict(outcome: Covered) -> Iterator[str]:
    words = ", since the testbench has no check" if outcome.verdict == "none" else ""
    yield f"<p>Verdict: <b>{outcome.verdict}</b>{words}. {outcome.checks} checks.</p>"
    yield from (f"<p class=note>{escape(each)}</p>" for each in outcome.faults)


def _kinds(outcome: Covered) -> Iterator[str]:
    yield "<h2>Coverage</h2><table><tr><th>kind<th>covered<th>of<th>share</tr>"
    for kind in outcome.coverage.kinds:
        share = f"{kind.covered / kind.total:.1%}"
        cells = "".join(f"<td class=n>{each}" for each in (kind.covered, kind.total, share))
        yield f"<tr><td>{kind.metric}{cells}</tr>"
    average = f"{outcome.coverage.overall_average:.1%}"
    yield f"<tr><td>average<td><td><td class=n>{average}</tr></table>"


def _plan(unit: Unit, missed: Sequence[Gap]) -> Iterator[str]:
    if not unit.plan:
        return
    yield f"<h2>Plan</h2><p>{len(missed) or 'No'} gaps</p><table>"
    for gap in missed:
        yield f"<tr><td><code>{escape(f'{gap.file}:{gap.line}')}</code><td>{escape(gap.text)}</tr>"
    yield "</table>"


def _mutants(found: Mutation) -> Iterator[str]:
    noticed = f"{found.count('noticed')} of {found.counted}"
    yield f"<h2>Mutants</h2><p>{noticed} noticed ({found.score:.1%})</p><table>"
    for fate, words in _FATES.items():
        for each in found.judged:
            if each.fate == fate:
                note = "" if fate == "noticed" else " class=note"
                reason = escape(each.reason)
                bug = f"<td><code>{escape(each.bug)}</code>"
                yield f"<tr><td{note}>{words}{bug}<td>{reason}</tr>"
    yield "</table>"


def _source(
    file: SourceFile, unit: Unit, points: Sequence[Point], outcome: Covered, missed: Sequence[Gap]
) -> Iterator[str]:
    executed = line_hits(
        (points[index], int(outcome.coverage.hit(index)))
        for index in reachable(points, unit)
        if points[index].file == file.name and points[index].metric in ("line", "branch")
    )
    yield f"<h2><code>{escape(file.name)}</code></h2><table class=source>"
    for number, text in enumerate(file.text.splitlines(), 1):
        known = {1: " class=hit", 0: " class=missed", None: ""}[executed.get(number)]
        notes = (f"{each.instance} {each.text}".strip() for each in missed if each.line == number)
        code = f"<td><code>{escape(text)}</code>"
        note = escape("; ".join(notes))
        yield f"<tr{known}><td class=n>{number}{code}<td class=note>{note}</tr>"
    yield "</table>"
