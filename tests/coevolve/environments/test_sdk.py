"""The names that an environment may use: few, explained, used, and loaded when they are needed."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from coevolve.environments import sdk

ROOT = Path(__file__).parents[3]
ENVIRONMENTS = ROOT / "coevolve" / "environments"
LINE = re.compile(r"^        (\w+) as (\w+),  # (\S.*)$", re.MULTILINE)
NAMES = {match[1]: match[3] for match in LINE.finditer((ENVIRONMENTS / "sdk.py").read_text())}
MAX_NAMES = 97


def modules(folder: Path) -> set[str]:
    """Return the modules and packages directly in a folder."""
    packages = {each.parent.name for each in folder.glob("*/__init__.py")}
    return packages | {each.stem for each in folder.glob("*.py") if each.stem[0] != "_"}


def used(room: str) -> set[str]:
    """Return the names that an environment takes from the sdk."""
    trees = [ast.parse(each.read_text()) for each in (ENVIRONMENTS / room).rglob("*.py")]
    return {
        alias.name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "coevolve.environments.sdk"
        for alias in node.names
    }


def test_each_name_is_explained_in_its_line_and_used_by_an_environment():
    assert set(NAMES) == set(sdk.HOMES) == used("hdl") | used("program")
    assert len(NAMES) <= MAX_NAMES
    assert len(set(NAMES.values())) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_that_of_its_home(name: str):
    assert getattr(sdk, name) is getattr(import_module(sdk.HOMES[name]), name)


def test_another_name_is_refused():
    with pytest.raises(ImportError, match="cannot import name 'Pool'"):
        exec("from coevolve.environments.sdk import Pool")
    with pytest.raises(AttributeError, match="has no name 'Pool'; its file lists"):
        getattr(sdk, "Pool")  # noqa: B009


@pytest.mark.parametrize(
    ("imported", "absent"),
    [
        ("coevolve.environments.sdk", {"msgspec", "numpy", "torch", "rich", "protocols"}),
        ("coevolve.environments.hdl.gate.fork_server", {"numpy", "torch", "rich", "lmdb"}),
        ("coevolve.environments.hdl.environment", {"torch", "transformers", "lmdb", "pyslang"}),
        ("coevolve.environments.program.environment", {"torch", "transformers", "h11"}),
    ],
)
def test_what_is_not_used_is_not_loaded(imported: str, absent: set[str]):
    code = f"import sys, {imported}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=ROOT)
    assert not absent & set(loaded.stdout.decode().split())


HELD = {"hdl", "program"}
"""Environments that import the sdk alone."""


def test_the_import_rule_forbids_every_other_module():
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (rule,) = [each for each in rules["contracts"] if each["id"] == "sdk"]
    above = {f"coevolve.{name}" for name in modules(ROOT / "coevolve") - {"environments"}}
    beside = {f"coevolve.environments.{name}" for name in modules(ENVIRONMENTS) - {*HELD, "sdk"}}
    assert set(rule["forbidden_modules"]) == above | beside | {"actors"}
