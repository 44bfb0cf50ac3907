"""The section with the terms that the page uses; its metrics have their meanings beside them."""

from coevolve.report.figure import section
from coevolve.report.markup import Markup, joined, tag
from coevolve.report.report_data import ReportData
from coevolve.runs.meanings import terms

TITLE = "Glossary"


def glossary_section(data: ReportData) -> Markup:
    """Return the terms and their meanings, without those of other environments."""
    rows = [
        joined([tag("dt", ", ".join(term.names)), tag("dd", term.meaning)])
        for term in terms()
        if term.environment in ("", data.config.uses)
    ]
    return section("glossary", TITLE, tag("dl", *rows, class_="terms"))
