"""The whole report as one file: it needs no network and no fonts.

The page escapes every text that a task or a model wrote. As a second defence, its content
security policy forbids a browser to run other scripts than the page's own, and to fetch anything.
Without scripts, all is shown but charts, whose numbers are in tables, and rollouts.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from coevolve.history.metric_docs import terms
from coevolve.history.run_history import RunHistory
from coevolve.report.figure import folded
from coevolve.report.markup import Markup, joined, tag
from coevolve.report.scripts import data_block, library, own, policy, script
from coevolve.report.sections.findings import findings_section
from coevolve.report.sections.head import head, run_section
from coevolve.report.sections.lineage import lineage_section
from coevolve.report.sections.lives import lives_data
from coevolve.report.sections.machine import machine_section
from coevolve.report.sections.metrics import metrics_data, metrics_section
from coevolve.report.sections.pool import pool_section
from coevolve.report.sections.rollouts import rollouts_data, rollouts_section
from coevolve.report.sections.signals import candidates_section
from coevolve.report.sections.skills import skills_section
from coevolve.report.sections.sources import sources_section
from coevolve.report.sections.success import held_out_section
from coevolve.report.sections.teaching import teaching_section
from coevolve.report.sections.weaknesses import weaknesses_section
from coevolve.report.style import style_sheet
from protocols.errors import RunError


def glossary_section(data: RunHistory) -> Markup:
    """Return the terms and their meanings, without those of other environments."""
    rows = [
        joined([tag("dt", ", ".join(term.names)), tag("dd", term.meaning)])
        for term in terms()
        if term.environment in ("", data.config.uses)
    ]
    return folded("glossary", "Glossary", "What words mean.", tag("dl", *rows, class_="terms"))


GROUPS = {
    "Results": {
        "findings": findings_section,
        "held-out": held_out_section,
        "skills": skills_section,
    },
    "Tasks": {
        "weaknesses": weaknesses_section,
        "candidates": candidates_section,
        "pool": pool_section,
        "lineage": lineage_section,
    },
    "Training": {
        "teaching": teaching_section,
        "machine": machine_section,
        "metrics": metrics_section,
    },
    "Records": {
        "rollouts": rollouts_section,
        "sources": sources_section,
        "run": run_section,
        "glossary": glossary_section,
    },
}
"""Name in the menu -> the function of each section, by anchor, in reading order."""

SECTIONS = {name: function for group in GROUPS.values() for name, function in group.items()}

_BEFORE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
"""


def write_report(path: Path, data: RunHistory) -> None:
    """Write the report of a run atomically: a reader sees the old file or the new one.

    Raises RunError if the file cannot be written.
    """
    text = page(data)
    try:
        handle, fresh = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".new")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(fresh).replace(path)
        except OSError:
            Path(fresh).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error}; give another --out FILE") from error


def page(data: RunHistory, *, served: bool = False) -> str:
    """Return the report as an HTML document; ``served`` if it comes from a board."""
    board = [tag("a", "all runs", href="..")] if served else []
    blocks: list[Markup] = []
    scripts = [library(), own("folds"), own("charts"), own("tables")]
    lives = {} if served else lives_data(data)
    if data.evolution.tasks:
        blocks.append(data_block("lives", lives))
        scripts.append(own("lives"))
    if data.series:
        blocks.append(data_block("curves", metrics_data(data.series)))
        scripts.append(own("curves"))
    if data.sample.groups:
        blocks.append(data_block("rollout-data", rollouts_data(data, None if served else lives)))
        scripts.append(own("rollouts"))
    if served:
        scripts.append(own("live"))
    return document(
        f"{data.config.name}: report of a run",
        tag("nav", *board, *map(_menu, GROUPS), UNFOLD, aria_label="sections"),
        head(data),
        *([tag("p", "", id="live", role="status")] if served else []),
        tag("a", "What words mean", href="#glossary", class_="words", accesskey="g"),
        tag("main", *(section(data) for section in SECTIONS.values())),
        *blocks,
        scripts=scripts,
        board="'self'" if served else "'none'",
    )


def _menu(group: str) -> Markup:
    """Return a group of the menu, which opens on a click."""
    links = (tag("li", tag("a", name.replace("-", " "), href=f"#{name}")) for name in GROUPS[group])
    return tag("details", tag("summary", group), tag("ul", *links), name="menu")


UNFOLD = tag("button", "Unfold all", type="button", id="unfold", hidden="")
"""Button that the page's script shows."""


def document(title: str, *body: str, scripts: Sequence[str] = (), board: str = "'none'") -> str:
    """Return an HTML document that runs ``scripts`` and no others.

    ``board`` is whom they may ask, as in a content security policy.
    """
    allowed = tag("meta", http_equiv="Content-Security-Policy", content=policy(scripts, board))
    style = tag("style", Markup(style_sheet()))
    whole = tag("body", *body, *map(script, scripts))
    return f"{_BEFORE}{joined([allowed, tag('title', title), style])}\n</head>\n{whole}\n</html>\n"
