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

COMMON = {"program"}
"""Names of environments that are common words, too."""

WORDS = re.compile(
    rf"\b({'|'.join(BUILT_IN.keys() - COMMON)}|verilator|verilog|testbench\w*|gorilla\w*)\b", re.I
)

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


def _methods(node: ast.ClassDef) -> dict[str, bool]:
    """Return the public methods of a class, and whether each has a docstring."""
    return {
        each.name: ast.get_docstring(each) is not None
        for each in node.body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name[0] != "_"
        if f"{each.name}.setter" not in map(ast.unparse, each.decorator_list)
    }


def test_every_public_method_is_explained_once():
    """A method needs no docstring if it implements one that an interface explains."""
    classes = [
        (path, node)
        for path in core(without=())
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and node.name[0] != "_"
    ]
    inherited = {ast.unparse(base).split("[")[0] for _, node in classes for base in node.bases}
    explained = {
        name
        for _, node in classes
        if node.name in inherited or "Protocol" in map(ast.unparse, node.bases)
        for name, has_docstring in _methods(node).items()
        if has_docstring
    }
    bare = [
        f"{path.relative_to(ROOT)}: {node.name}.{name}"
        for path, node in classes
        for name, has_docstring in _methods(node).items()
        if not has_docstring and name not in explained
    ]
    assert {"reset", "scan", "status"} <= explained
    assert not bare
