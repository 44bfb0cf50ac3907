"""The section with the terms that the page uses; its metrics have their meanings beside them."""

from coevolve.history.metric_docs import terms
from coevolve.history.run_history import RunHistory
from coevolve.report.figure import folded
from coevolve.report.markup import Markup, joined, tag

TITLE = "Glossary"


def glossary_section(data: RunHistory) -> Markup:
    """Return the terms and their meanings, without those of other environments."""
    rows = [
        joined([tag("dt", ", ".join(term.names)), tag("dd", term.meaning)])
        for term in terms()
        if term.environment in ("", data.config.uses)
    ]
    return folded("glossary", TITLE, "What words mean.", tag("dl", *rows, class_="terms"))
