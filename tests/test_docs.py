"""What the pages say of the project's own files."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "coevolve" / "docs").glob("*.md")))
NAMED = re.compile(r"`((?:coevolve|actors|protocols|tests|configs|designs)[/.][\w./]*\w/?)`")


def is_there(name: str) -> bool:
    """Whether ``name`` is a file, a folder, a module, or something in a module."""
    if (ROOT / name).exists():
        return True
    parts = name.split(".")
    homes = (ROOT.joinpath(*parts[:count]) for count in (len(parts), len(parts) - 1))
    return any(home.is_dir() or home.with_suffix(".py").is_file() for home in homes)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_is_there(page: Path):
    names = set(NAMED.findall(page.read_text()))
    assert not [name for name in sorted(names) if not is_there(name)]


def test_a_file_that_is_gone_would_be_found():
    assert is_there("coevolve/journal/journal.py")
    assert is_there("protocols.journal.Append")
    assert not is_there("coevolve/rollouts/gone.py")
    assert not is_there("coevolve.rollouts.gone.Thing")
