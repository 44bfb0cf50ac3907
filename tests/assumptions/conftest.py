"""Names the broken facts, and the files that need them, when this folder's tests end."""

from pathlib import Path

import pytest

from tests.assumptions.facts import FOLDER, Fact, facts
from tests.assumptions.libraries import installed


def pytest_report_header() -> str:
    """Return the versions with which the facts are checked."""
    return f"libraries: {', '.join(installed())}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write the facts whose tests failed."""
    broken = {
        _key(report.nodeid)
        for outcome in ("failed", "error")
        for report in terminalreporter.getreports(outcome)
        if FOLDER.name in Path(report.nodeid.partition("::")[0]).parts
    }
    told = [fact for fact in facts() if (fact.file, fact.test) in broken]
    if told:
        terminalreporter.section("broken facts")
    for fact in told:
        terminalreporter.line(words(fact))


def _key(nodeid: str) -> tuple[str, str]:
    file, _, test = nodeid.partition("::")
    return Path(file).name, test.partition("[")[0]


def words(fact: Fact) -> str:
    """Return what a broken fact said and which files of the project rely on it."""
    return (
        f"{fact.file}::{fact.test}: no longer true: {fact.sentence}\n"
        f"    needed by {', '.join(fact.needed_by)}"
    )
