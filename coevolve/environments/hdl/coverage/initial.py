"""Leaves initial values and ``initial`` blocks of the RTL out of coverage.

They run once, before any stimulus, so every testbench would cover them. Verilator's own comments
turn coverage off around the value of a variable's declaration, and around each ``initial`` block
that waits for nothing. A block that waits keeps its points. So does a file in which the designer
turns coverage on or off.

The toggles that initial values cause are not counted either: those of time 0, in
``simulate/cpp/counters.h``.
"""

from collections.abc import Iterator

from pyslang.parsing import Token, TokenKind
from pyslang.syntax import (
    DataDeclarationSyntax,
    DeclaratorSyntax,
    GenerateBlockSyntax,
    ImplicitAnsiPortSyntax,
    ModuleDeclarationSyntax,
    PortDeclarationSyntax,
    ProceduralBlockSyntax,
    SyntaxKind,
    SyntaxNode,
)

from coevolve.environments.hdl.designs.rtl import Rtl
from coevolve.environments.hdl.nodes import nodes

OFF, ON = "/*verilator coverage_off*/ ", " /*verilator coverage_on*/"
OWN = ("verilator coverage_off", "verilator coverage_on")
"""How a designer turns coverage off and on."""

WAITS = frozenset(
    {
        *(TokenKind.At, TokenKind.Hash, TokenKind.DoubleHash, TokenKind.WaitKeyword),
        *(TokenKind.WaitOrderKeyword, TokenKind.ForkKeyword),
    }
)

Insertion = tuple[str, int, str]
"""A file, the number of bytes before the place, and the text to insert there."""


def initial_parts(rtl: Rtl) -> Iterator[Insertion]:
    """Yield the comments to insert into the files of ``rtl``."""
    own = {file.name for file in rtl.unit.files if any(each in file.text for each in OWN)}
    for node in _initial(rtl.tree.root):
        start, end = node.sourceRange.start, node.sourceRange.end
        file = rtl.sources.getFileName(start)
        in_macro = rtl.sources.isMacroLoc(start) or rtl.sources.isMacroLoc(end)
        if file not in own and not in_macro and start.buffer == end.buffer:
            yield file, start.offset, OFF
            yield file, end.offset, ON


def _initial(root: SyntaxNode) -> Iterator[SyntaxNode]:
    for node in nodes(root, ProceduralBlockSyntax, DeclaratorSyntax):
        if isinstance(node, ProceduralBlockSyntax):
            if node.kind == SyntaxKind.InitialBlock and not _waits(node):
                yield node
        elif node.initializer and _is_member(node):
            yield node.initializer.expr


def _is_member(declarator: DeclaratorSyntax) -> bool:
    """Return whether it declares a port or a variable of a module, not of a process or function."""
    declaration = declarator.parent
    if isinstance(declaration, ImplicitAnsiPortSyntax | PortDeclarationSyntax):
        return True
    return isinstance(declaration, DataDeclarationSyntax) and isinstance(
        declaration.parent, ModuleDeclarationSyntax | GenerateBlockSyntax
    )


def _waits(block: ProceduralBlockSyntax) -> bool:
    return any(token.kind in WAITS for token in nodes(block, Token))
