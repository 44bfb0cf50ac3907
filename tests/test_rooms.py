"""The core knows no environment: it names none, and imports none."""

import ast
import re
from pathlib import Path

from coevolve.environments.registry import BUILT_IN

ROOT = Path(__file__).parents[1]
HOUSES = ("coevolve", "actors", "protocols")
MAY_NAME = ("coevolve/environments/", "coevolve/cli/setup.py", "coevolve/docs/")
"""What may name environments: the environments, the text of the command that sets them up, docs."""

MAY_IMPORT = ("coevolve/environments/", "coevolve/cli/", "coevolve/commands/")
"""Folders that may import from environments."""

WORDS = re.compile(rf"\b({'|'.join(BUILT_IN)}|verilator|verilog|testbench\w*|gorilla\w*)\b", re.I)

TORCHS = "torch.distributed.checkpoint.filesystem"
"""A module of torch, which has the name of an environment."""


def core(*, without: tuple[str, ...]) -> list[Path]:
    files = (path for house in HOUSES for path in (ROOT / house).rglob("*.py"))
    return [path for path in files if not str(path.relative_to(ROOT)).startswith(without)]


def test_the_core_names_no_environment():
    named = {
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in core(without=MAY_NAME)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if WORDS.search(line.replace(TORCHS, ""))
    }
    assert len(core(without=MAY_NAME)) > 150
    assert not sorted(named)


DOORS = (
    "coevolve.environments",
    "coevolve.environments.cache_folder",
    "coevolve.environments.initial_model",
    "coevolve.environments.interface",
    "coevolve.environments.open_parts",
    "coevolve.environments.packages",
    "coevolve.environments.registry",
)
"""Modules that lead to environments without naming one: for run files, actors and commands.
Import-linter states which packages may use them."""


def test_the_core_imports_no_environment():
    found = {
        f"{path.relative_to(ROOT)}: {node.module}"
        for path in core(without=MAY_IMPORT)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("coevolve.environments")
        and node.module not in DOORS
    }
    assert not sorted(found)
