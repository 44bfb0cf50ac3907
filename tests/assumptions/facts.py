"""Reads the facts about libraries that the tests of this folder check.

Each test of the folder is one fact. The first paragraph of its docstring states the fact in one
sentence, and a last paragraph names the files of this project that need it:

    Needed by: coevolve/journal/layout.py, coevolve/journal/pages.py

`make test` checks the facts with the pinned versions. A run of this folder
alone ends with the broken facts and the files that need them.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
FORM = "test_form.py"
"""The test of this form, which is no fact."""

NEEDED_BY = "Needed by: "


class Fact(NamedTuple):
    """What one test's docstring says."""

    file: str
    """Name of the test's file in this folder."""

    test: str
    sentence: str
    """The first paragraph on one line; empty without a docstring."""

    needed_by: tuple[str, ...]
    """Files of this project, relative to its root."""


def facts() -> list[Fact]:
    """Return the facts of all files of this folder."""
    return [fact for file in sorted(FOLDER.glob("test_*.py")) for fact in facts_of(file)]


def facts_of(file: Path) -> Iterator[Fact]:
    """Yield the facts of one file in their order."""
    if file.name == FORM:
        return
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[:5] == "test_":
            yield fact_of(file.name, node.name, ast.get_docstring(node) or "")


def fact_of(file: str, test: str, docstring: str) -> Fact:
    """Return the fact that a test's docstring states."""
    paragraphs = [" ".join(paragraph.split()) for paragraph in docstring.split("\n\n")]
    needed_by = [
        name.strip()
        for paragraph in paragraphs
        if paragraph.startswith(NEEDED_BY)
        for name in paragraph.removeprefix(NEEDED_BY).split(",")
    ]
    return Fact(file, test, paragraphs[0], tuple(needed_by))
