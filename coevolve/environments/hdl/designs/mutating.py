"""Makes mutants of any design: one small bug each, of the kinds that designers make.

| kind     | the bug                                                                     |
|----------|-----------------------------------------------------------------------------|
| operator | another operator (``+`` for ``-``, ``<=`` for ``<``), or none for ``!``     |
| constant | a number with its lowest bit flipped                                        |
| reset    | an assignment left out of the first branch of a clocked process             |
| state    | another state, where one is assigned that an enum or a ``case`` has         |

They are made from the syntax of the modules under the top: of processes, assignments and
functions, not of declarations, ranges, timing, assertions, loop heads or ``initial`` blocks. A
module with more places than wanted gets the kinds in turn, and each kind evenly over its text, so
the choice depends on the text alone. Text that a macro expands to stays as it is.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, cast

from pyslang import SourceLocation, SourceRange
from pyslang.ast import InstanceSymbol
from pyslang.syntax import (
    BinaryExpressionSyntax,
    CaseStatementSyntax,
    ConditionalStatementSyntax,
    DeclaratorSyntax,
    ElseClauseSyntax,
    EnumTypeSyntax,
    ExpressionStatementSyntax,
    ForLoopStatementSyntax,
    LoopStatementSyntax,
    ModuleDeclarationSyntax,
    PrefixUnaryExpressionSyntax,
    ProceduralBlockSyntax,
    StandardCaseItemSyntax,
    SyntaxKind,
    SyntaxNode,
)

from coevolve.environments.hdl.designs.design import Mutant
from coevolve.environments.hdl.designs.rtl import Rtl
from coevolve.environments.hdl.nodes import nodes
from coevolve.environments.hdl.simulate.messages import SourceFile

T = TypeVar("T", bound=SyntaxNode)

MOST_MUTANTS = 20
"""Maximum mutants of a module."""

Kind = Literal["operator", "constant", "reset", "state"]

_SWAPS = {
    **{"+": "-", "-": "+", "*": "+", "&": "|", "|": "&", "^": "&", "~^": "^", "&&": "||"},
    **{"||": "&&", "==": "!=", "!=": "==", "===": "!==", "!==": "===", "<": "<=", "<=": "<"},
    **{">": ">=", ">=": ">", "<<": ">>", ">>": "<<", ">>>": ">>", "<<<": ">>>", "/": "*"},
}
_NEGATIONS = (SyntaxKind.UnaryLogicalNotExpression, SyntaxKind.UnaryBitwiseNotExpression)
_ASSIGNMENTS = (SyntaxKind.AssignmentExpression, SyntaxKind.NonblockingAssignmentExpression)
_PROCESSES = (
    *(SyntaxKind.AlwaysBlock, SyntaxKind.AlwaysFFBlock, SyntaxKind.AlwaysCombBlock),
    SyntaxKind.AlwaysLatchBlock,
)
_CODE = (*_PROCESSES, SyntaxKind.ContinuousAssign, SyntaxKind.FunctionDeclaration)
_CLOSED = frozenset(
    {
        *("SimpleRangeSelect", "AscendingRangeSelect", "DescendingRangeSelect"),
        *("VariableDimension", "EventControlWithExpression", "EventControl", "DelayControl"),
        *("ImmediateAssertStatement", "ImmediateAssumeStatement", "ImmediateCoverStatement"),
        *("AssertPropertyStatement", "AssumePropertyStatement", "CoverPropertyStatement"),
        *("DataDeclaration", "ParameterDeclarationStatement", "TypedefDeclaration"),
        *("FunctionPrototype", "InvocationExpression", "ModuleDeclaration"),
    }
)
_CONSTANTS = (
    *(SyntaxKind.IntegerLiteralExpression, SyntaxKind.IntegerVectorExpression),
    SyntaxKind.UnbasedUnsizedLiteralExpression,
)
_NUMBER = re.compile(r"(?:(?P<head>\d*\s*'s?[bodhBODH]\s*))?(?P<digits>[0-9a-fA-F_]+)\Z")
_BASES = {"b": 2, "o": 8, "d": 10, "h": 16}
_FORMATS = {2: "b", 8: "o", 10: "d", 16: "x"}


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A bug: bytes ``start`` to ``end`` of a file become ``text``."""

    kind: Kind
    start: SourceLocation
    end: SourceLocation
    text: str
    said: str
    around: SourceRange
    """The whole expression or statement, which holds the edit."""


def mutants_of(rtl: Rtl, most: int = MOST_MUTANTS) -> tuple[Mutant, ...]:
    """Return at most ``most`` mutants of each module of the design, in the order of its text."""
    return tuple(mutant for mutant, _ in edited(rtl, most))


def edited(rtl: Rtl, most: int = MOST_MUTANTS) -> tuple[tuple[Mutant, Edit], ...]:
    """Return the mutants of `mutants_of`, each with its edit."""
    texts = {file.name: file for file in rtl.unit.files}
    used = {each.body.definition.name for each in nodes(rtl.top, InstanceSymbol)}
    used.add(rtl.top.definition.name)
    states = list(_groups(rtl.tree.root))
    found: list[tuple[Mutant, Edit]] = []
    for module in nodes(rtl.tree.root, ModuleDeclarationSyntax):
        if module.header.name.valueText not in used:
            continue
        edits = [each for each in _edits(module, states) if _is_written(rtl, each)]
        for edit in _chosen(edits, most):
            file = texts[rtl.sources.getFileName(edit.start)]
            found.append((_mutant(rtl, file, edit, f"m{len(found) + 1}"), edit))
    return tuple(found)


def _chosen(edits: Sequence[Edit], most: int) -> list[Edit]:
    """Return at most ``most`` edits: the kinds in turn, each spread evenly over its places."""
    kinds: dict[str, list[Edit]] = {}
    for edit in edits:
        kinds.setdefault(edit.kind, []).append(edit)
    shares = dict.fromkeys(kinds, 0)
    for _ in range(min(most, len(edits))):
        short = [kind for kind, places in kinds.items() if shares[kind] < len(places)]
        shares[min(short, key=lambda kind: shares[kind])] += 1
    chosen = [
        kinds[kind][place * len(kinds[kind]) // share]
        for kind, share in shares.items()
        for place in range(share)
    ]
    return sorted(chosen, key=lambda each: each.start.offset)


def _mutant(rtl: Rtl, file: SourceFile, edit: Edit, name: str) -> Mutant:
    """Return the edit with as many whole lines around it as make its text unique."""
    text = file.text.encode()
    start, end = edit.start.offset, edit.end.offset
    first, last = text.rfind(b"\n", 0, start) + 1, end
    while text.count(text[first:last]) > 1:
        after = text.find(b"\n", last + 1)
        last = len(text) if after < 0 else after
        first = text.rfind(b"\n", 0, max(first - 1, 0)) + 1
    found = text[first:start].decode(), text[start:end].decode(), text[end:last].decode()
    place = f"{file.name}:{rtl.sources.getLineNumber(edit.start)}"
    return Mutant(
        name=name,
        file=file.name,
        find="".join(found),
        replace=found[0] + edit.text + found[2],
        bug=f"{place}:{rtl.sources.getColumnNumber(edit.start)}: {edit.said}",
    )


def _is_written(rtl: Rtl, edit: Edit) -> bool:
    """Return whether the text stands in one file, not in a macro."""
    macro = rtl.sources.isMacroLoc(edit.start) or rtl.sources.isMacroLoc(edit.end)
    return not macro and edit.start.buffer == edit.end.buffer and edit.start < edit.end


def _edits(module: SyntaxNode, states: Sequence[Sequence[str]]) -> Iterator[Edit]:
    """Yield the edits of a module's own code, in the order of its text."""
    for child in _children(module):
        if isinstance(child, ModuleDeclarationSyntax):
            continue
        if child.kind in _CODE:
            resets = set(_reset_statements(child))
            yield from _of(child, states, resets)
        else:
            yield from _edits(child, states)


def _of(node: SyntaxNode, states: Sequence[Sequence[str]], resets: set[int]) -> Iterator[Edit]:
    if isinstance(node, ExpressionStatementSyntax) and node.sourceRange.start.offset in resets:
        yield _edit("reset", node, ";", f"`{_short(node)}` is left out")
    if isinstance(node, BinaryExpressionSyntax):
        yield from _of_binary(node, states)
    if isinstance(node, PrefixUnaryExpressionSyntax) and node.kind in _NEGATIONS:
        yield _edit("operator", node, f" {node.operand}", f"`{_short(node)}` is not negated")
    if node.kind in _CONSTANTS and (other := _flipped(str(node).strip())):
        yield _edit("constant", node, other, f"`{_short(node)}` becomes `{other}`")
    for child in _children(node):
        if child.kind.name not in _CLOSED and not _is_left_alone(node, child):
            yield from _of(child, states, resets)


def _of_binary(node: BinaryExpressionSyntax, states: Sequence[Sequence[str]]) -> Iterator[Edit]:
    token = node.operatorToken
    if node.kind in _ASSIGNMENTS:
        name = str(node.right).strip()
        group = next((each for each in states if name in each), None)
        if group is not None and node.right.kind == SyntaxKind.IdentifierName:
            other = group[(group.index(name) + 1) % len(group)]
            yield _edit("state", node.right, other, f"`{name}` becomes `{other}`")
    elif other := _SWAPS.get(token.rawText, ""):
        end = SourceLocation(token.location.buffer, token.location.offset + len(token.rawText))
        said = f"`{token.rawText}` becomes `{other}`"
        yield Edit(
            kind="operator",
            start=token.location,
            end=end,
            text=other,
            said=said,
            around=node.sourceRange,
        )


def _edit(kind: Kind, node: SyntaxNode, text: str, said: str) -> Edit:
    at = node.sourceRange
    return Edit(kind=kind, start=at.start, end=at.end, text=text, said=said, around=at)


def _is_left_alone(node: SyntaxNode, child: SyntaxNode) -> bool:
    """Return whether ``child`` is the target of an assignment, or the head of a loop.

    A bug in a head could make the loop endless.
    """
    if isinstance(node, BinaryExpressionSyntax):
        start = node.left.sourceRange.start
        return node.kind in _ASSIGNMENTS and child.sourceRange.start == start
    if isinstance(node, ForLoopStatementSyntax | LoopStatementSyntax):
        return child.sourceRange.start != node.statement.sourceRange.start
    return False


def _reset_statements(process: SyntaxNode) -> Iterator[int]:
    """Yield the offset of each assignment in the first branch of a clocked process."""
    if not isinstance(process, ProceduralBlockSyntax):
        return
    if "edge" not in str(process).split("begin")[0]:
        return
    for first in nodes(process, ConditionalStatementSyntax):
        if any(isinstance(each, ElseClauseSyntax) for each in _children(first)):
            for each in nodes(first.statement, ExpressionStatementSyntax):
                yield each.sourceRange.start.offset
        return


def _groups(root: SyntaxNode) -> Iterator[Sequence[str]]:
    """Yield the names of each enum, then the names that are labels of each ``case``."""
    for enum in nodes(root, EnumTypeSyntax):
        yield [each.name.valueText for each in nodes(enum, DeclaratorSyntax)]
    for case in nodes(root, CaseStatementSyntax):
        labels: list[str] = []
        for item in nodes(case, StandardCaseItemSyntax):
            names = (each for each in _children(item) if each.kind == SyntaxKind.IdentifierName)
            labels += [str(each).strip() for each in names]
        yield list(dict.fromkeys(labels))


def _flipped(number: str) -> str:
    """Return the number with its lowest bit flipped; empty for one with unknown bits."""
    if number in ("'0", "'1"):
        return "'1" if number == "'0" else "'0"
    match = _NUMBER.match(number)
    if match is None:
        return ""
    head = match["head"] or ""
    base = _BASES[head.strip()[-1].lower()] if head else 10
    try:
        value = int(match["digits"], base) ^ 1
    except ValueError:
        return ""
    return f"{head}{value:{_FORMATS[base]}}"


def _short(node: SyntaxNode, most: int = 50) -> str:
    text = " ".join(str(node).split())
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _children(node: SyntaxNode) -> Iterator[SyntaxNode]:
    for child in cast("Sequence[object]", node):
        if isinstance(child, SyntaxNode):
            yield child
