"""Finds the module of a testbench to simulate, from the text's syntax alone.

It is the module that no other instantiates. If there are several, it is the one that has an
instance of the module under verification somewhere below it.
"""

from collections.abc import Mapping, Sequence

from pyslang.syntax import (
    HierarchyInstantiationSyntax,
    ModuleDeclarationSyntax,
    SyntaxKind,
    SyntaxNode,
)

from coevolve.environments.hdl.nodes import nodes
from coevolve.environments.hdl.simulate.messages import NotCovered, Unit

_SIMULATED = (SyntaxKind.ModuleDeclaration, SyntaxKind.ProgramDeclaration)


def top_module(root: SyntaxNode, unit: Unit, told: str) -> str | NotCovered:
    """Return the module to simulate: ``told`` if given, or else the only candidate."""
    modules = _modules(root)
    if told:
        if told in modules:
            return told
        return NotCovered(
            message=f"there is no module {told!r} in tb.sv{_found_words(list(modules))}"
        )
    used = {name for inside in modules.values() for name in inside}
    tops = [name for name in modules if name not in used]
    covering = [name for name in tops if _instantiates(modules, name, unit.top)]
    if len(covering) == 1:
        return covering[0]
    if covering:
        return NotCovered(
            message=f"one module of tb.sv should instantiate {unit.top} and be instantiated by no "
            f"other{_found_words(covering)}"
        )
    return NotCovered(message=f"no module of tb.sv{_found_words(tops)} instantiates {unit.top}")


def _found_words(found: Sequence[str]) -> str:
    return f" (found {', '.join(found)})" if found else " (found none)"


def _instantiates(modules: Mapping[str, Sequence[str]], top: str, target: str) -> bool:
    """Return whether ``target`` is instantiated anywhere under ``top``."""
    reached, pending = {top}, [top]
    while pending:
        for name in modules.get(pending.pop(), ()):
            if name not in reached:
                reached.add(name)
                pending.append(name)
    return target in reached - {top}


def _modules(root: SyntaxNode) -> dict[str, list[str]]:
    """Return the testbench's modules, each with the modules that it instantiates."""
    modules: dict[str, list[str]] = {}
    inside: list[str] = []
    for node in nodes(root, ModuleDeclarationSyntax, HierarchyInstantiationSyntax):
        if isinstance(node, HierarchyInstantiationSyntax):
            inside.append(node.type.valueText)
            continue
        inside = []
        if node.kind in _SIMULATED:
            modules[node.header.name.valueText] = inside
    return modules
