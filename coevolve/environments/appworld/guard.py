"""Which blocks of code AppWorld's engine refuses unread, in its own words: standard library only.

The engine looks at names of modules and of called functions (its module ``safety_guard``). That
protects nothing, and here nothing relies on it; but a policy is to see the same refusals. The text
of this file is sent to the interpreter's process, which runs it there.
"""

import ast
from collections.abc import Iterable, Mapping

BUILT_IN = frozenset({"exit", "quit", "open", "SystemExit", "eval", "exec"})
"""Functions that the engine knows to be built in."""


def refusal(tree: ast.Module, modules: Iterable[str], functions: Iterable[str]) -> str:
    """Return why a block is refused; empty if it is not.

    It may import ``modules`` only, and may not call ``functions``, given as dotted paths.
    """
    if foreign := sorted(imported(tree) - set(modules)):
        return _told("module", foreign)
    if called := sorted(paths(tree) & set(functions)):
        return _told("function", called)
    return ""


def _told(kind: str, names: list[str]) -> str:
    *first, last = names
    joined = f"{', '.join(first)} and {last}" if first else last
    return f"Usage of the following {kind}{'s' * bool(first)} is not allowed: {joined}."


def imported(tree: ast.Module) -> set[str]:
    """Return the top-level modules that a block imports."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def paths(tree: ast.Module) -> set[str]:
    """Return the dotted paths of the functions that a block calls, as far as names tell."""
    calls = _Calls(_aliases(tree))
    calls.visit(tree)
    return {f"builtins.{path}" if path in BUILT_IN else path for path in calls.paths}


def _aliases(tree: ast.Module) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            found |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in node.names}
    return found


class _Calls(ast.NodeVisitor):
    """Collects the paths of calls, also on a variable that a call was assigned to before."""

    def __init__(self, aliases: Mapping[str, str]) -> None:
        self._aliases = aliases
        self._made: dict[str, str] = {}
        self.paths: set[str] = set()

    def visit_Assign(self, node: ast.Assign) -> None:
        """Remember what a variable is made by."""
        if isinstance(node.value, ast.Call) and (parts := _parts(node.value.func)):
            maker = self._resolved(parts)
            self._made |= {each.id: maker for each in node.targets if isinstance(each, ast.Name)}
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Collect a call."""
        if parts := _parts(node.func):
            if len(parts) > 1 and parts[0] in self._made:
                parts = [self._made[parts[0]], *parts[1:]]
            self.paths.add(self._resolved(parts))
        self.generic_visit(node)

    def _resolved(self, parts: list[str]) -> str:
        return ".".join([self._aliases.get(parts[0], parts[0]), *parts[1:]])


def _parts(node: ast.expr) -> list[str]:
    """Return the names of ``a.b.c``; only ``b.c`` if what comes before is no name."""
    found: list[str] = []
    while isinstance(node, ast.Attribute):
        found.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        found.append(node.id)
    return found[::-1]
