"""Functional coverage that the testbench cannot touch: the plan, in files bound to the design.

A plan's file has modules or interfaces with covergroups and ``cover`` statements, and ``bind``
directives that add them to modules of the design. Neither the design nor the testbench mentions it.
Its bins and statements are coverage points of the kind ``plan``, beside those of the RTL, and join
the overall average as a kind of their own; ignored bins count nothing. A sampled illegal bin and a
failed assertion of the plan make the verdict ``failed``. Covergroups and ``cover`` statements of
the testbench never count.

The coverage file has no path for a covergroup: instances of one group share their bins. So a run
counts only if all of the plan is inside the design's instance, and a plan has nothing outside of
modules, where a testbench could make a group of it.
"""

from collections.abc import Sequence

from pyslang import SourceManager
from pyslang.syntax import ModuleDeclarationSyntax, SyntaxKind, SyntaxTree

from coevolve.environments.hdl.coverage.scopes import Scope, is_of, prints_inside
from coevolve.environments.hdl.simulate.messages import NotCovered, Unit
from protocols.errors import ConfigError

_ALLOWED = (
    SyntaxKind.ModuleDeclaration,
    SyntaxKind.InterfaceDeclaration,
    SyntaxKind.BindDirective,
    SyntaxKind.EmptyMember,
)


def check_plan(unit: Unit) -> None:
    """Raise ConfigError for a plan with something outside of modules, interfaces and binds."""
    names = [file.name for file in (*unit.files, *unit.plan)]
    for file in unit.plan:
        if names.count(file.name) > 1:
            raise ConfigError(f"{file.name}: a plan needs another name than files of the design")
        for member in _tree(file.text).root:
            kind = getattr(member, "kind", None)
            if isinstance(kind, SyntaxKind) and kind not in _ALLOWED:
                text = " ".join(str(member).split())[:60]
                raise ConfigError(
                    f"{file.name}: a plan needs modules, interfaces and binds alone, so that no "
                    f"testbench can sample it, found outside of them: {text!r}"
                )


def escaped(scopes: Sequence[Scope], duts: Sequence[str], unit: Unit) -> NotCovered | None:
    """Return the outcome if a part of the plan is outside of the instances at ``duts``."""
    modules = [name for file in unit.plan for name in _modules(file.text)]
    for scope in scopes:
        planned = any(is_of(scope.module, name) for name in modules)
        if planned and not any(prints_inside(scope, dut) for dut in duts):
            return NotCovered(
                message=f"the plan needs to be inside of {', '.join(duts)} alone, found a part of "
                f"it in {scope.path}; instantiate no other module of the design"
            )
    return None


def _modules(text: str) -> list[str]:
    members = [each for each in _tree(text).root if isinstance(each, ModuleDeclarationSyntax)]
    return [each.header.name.valueText for each in members]


def _tree(text: str) -> SyntaxTree:
    """Return the syntax of a file, whose root is a list even for a single member."""
    return SyntaxTree.fromText(f"{text}\n;", SourceManager())
