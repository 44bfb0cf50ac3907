"""Tests that the pages agree with the project's files."""

import asyncio
import re
import textwrap
from pathlib import Path

import pytest

from coevolve.config import conflicts, load_config
from coevolve.environments.registry import environment_named

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "coevolve" / "docs").glob("*.md")))
NAMED = re.compile(r"`((?:coevolve|actors|protocols|tests|configs|designs)[/.][\w./]*\w/?)`")


def is_there(name: str) -> bool:
    """Return whether ``name`` is a file, a folder, a module, or an object in a module."""
    if (ROOT / name).exists():
        return True
    parts = name.split(".")
    homes = (ROOT.joinpath(*parts[:count]) for count in (len(parts), len(parts) - 1))
    return any(home.is_dir() or home.with_suffix(".py").is_file() for home in homes)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_named_by_a_page_exists(page: Path):
    names = set(NAMED.findall(page.read_text()))
    assert not [name for name in sorted(names) if not is_there(name)]


def test_a_missing_file_is_found():
    assert is_there("coevolve/journal/journal.py")
    assert is_there("protocols.journal.Append")
    assert not is_there("coevolve/rollouts/gone.py")
    assert not is_there("coevolve.rollouts.gone.Thing")


def code_after(heading: str) -> list[str]:
    """Return the indented blocks of a section of README, without their indentation."""
    section = (ROOT / "README.md").read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", section, re.MULTILINE)
    return [textwrap.dedent(block).strip("\n") for block in blocks]


def test_the_run_file_of_the_readme_can_be_tried(tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text(code_after("Train your own model")[0])
    config = load_config(file, ["policy.tiny_random=true"])
    assert not conflicts(config)
    assert config.uses == "bfcl"


def test_the_environment_of_the_readme_keeps_its_promises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    code, line, _ = code_after("Bring your own environment")
    (tmp_path / "readme_store.py").write_text(code)
    held_out = line.replace("put-1", "put-2").replace('"a": "1"', '"a": "2"')
    (tmp_path / "tasks.jsonl").write_text(f"{line}\n{held_out}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    environment = environment_named(
        "readme_store:KeyValue", tasks=str(tmp_path / "tasks.jsonl"), held_out_share=0.5
    )
    found = asyncio.run(environment.conformance(10))
    assert not [each for each in found if each.state == "fails"]
