"""Refuses testbenches that no front end should evaluate: excessive sizes, circular definitions.

Sizes are checked after elaboration, when they are known. pyslang counts the bits of types and
values, the steps of constant functions, instances and generate blocks, and reports where one of its
limits is exceeded. This module adds the limits that pyslang lacks: the bits of a variable, the
width of a printed field, the arguments of ``$timeformat``, and classes that extend one another, on
which Verilator does not end. It does not check sizes that are known only at run time, nor bins of
coverage groups; the sandbox's limits end those.

It also refuses the one value that differs from run to run: a virtual interface as an argument of a
system task, which prints its address.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from pyslang import DiagCode, DiagnosticEngine, Diags, SourceLocation, SourceManager, SVInt
from pyslang.ast import (
    CallExpression,
    Compilation,
    CompilationOptions,
    EvalContext,
    Expression,
    FieldSymbol,
    InstanceSymbol,
    NetSymbol,
    Type,
    VariableSymbol,
    VisitAction,
)
from pyslang.parsing import Token, TokenKind
from pyslang.syntax import (
    ClassDeclarationSyntax,
    ClassNameSyntax,
    ExtendsClauseSyntax,
    IdentifierNameSyntax,
    ImplementsClauseSyntax,
    ModuleDeclarationSyntax,
    ScopedNameSyntax,
    SyntaxNode,
    SyntaxTree,
)

from coevolve.environments.hdl.designs.rtl import compilation_of, located, options_for
from coevolve.environments.hdl.gate.parameters import changed_parameters
from coevolve.environments.hdl.nodes import nodes
from coevolve.environments.hdl.simulate.messages import Unit

MOST_BITS = 1 << 26
"""Maximum bits of a variable: 8 MB."""

MOST_FIELD = 1000
"""Maximum characters, and digits, that a conversion in a string may request."""

MOST_GENERATED = 4096
"""Maximum iterations of a generate loop, instances of an array, and instances in all."""

MOST_DEPTH = 64
MOST_STEPS = 1_000_000
"""Maximum steps of evaluating one constant."""

BOUNDS: frozenset[DiagCode] = frozenset(
    {
        Diags.ArrayDimTooLarge,
        Diags.ClassInheritanceCycle,
        Diags.ConstEvalExceededMaxCallDepth,
        Diags.ConstEvalExceededMaxSize,
        Diags.ConstEvalExceededMaxSteps,
        Diags.EnumValueCountExceeded,
        Diags.InfinitelyRecursiveHierarchy,
        Diags.MaxGenerateStepsExceeded,
        Diags.MaxInstanceArrayExceeded,
        Diags.MaxInstanceDepthExceeded,
        Diags.ObjectTooLarge,
        Diags.PackedTypeTooLarge,
        Diags.RecursiveClassSpecialization,
        Diags.ValueExceedsMaxBitWidth,
    }
)
"""pyslang's diagnostics for exceeded limits."""

ADDRESS = "a virtual interface has no value to print"
NO_TEXT = "a string needs to be UTF-8, write other bytes as a number"

TIME_FORMAT = {
    0: ("unit", range(-15, 3)),
    1: ("precision", range(MOST_FIELD + 1)),
    3: ("width", range(MOST_FIELD + 1)),
}
"""Arguments of ``$timeformat`` and their ranges; outside of them Verilator's own code fails."""

_FIELD = re.compile(r"%[-+ #]*(\d*)(?:\.(\d+))?")

Path = tuple[str, ...]
Excess = tuple[SourceLocation, str]
"""Place and message."""


def excesses(
    tree: SyntaxTree, sources: SourceManager, top: str, unit: Unit
) -> Iterator[tuple[str, str]]:
    """Yield the excesses in the elaborated module ``top`` and in the text of ``tree``.

    ``unit`` is the design, whose instances keep its parameters. Each excess is ``file:line:column``
    and a message. Takes as long as elaboration.
    """
    compilation = compilation_of(tree, bounded_options(top))
    root: SyntaxNode = tree.root
    for where, message in (
        *_fields(root),
        *circles(root),
        *_elaboration_excesses(compilation, sources),
        *changed_parameters(compilation.getRoot(), unit),
    ):
        yield located(sources, where)[1], message


def bounded_options(top: str) -> CompilationOptions:
    """Return the options for foreign text, with limits on what elaborating it takes."""
    options = options_for(top)
    options.maxConstexprSteps = MOST_STEPS
    options.maxGenerateSteps = MOST_GENERATED
    options.maxInstanceArray = MOST_GENERATED
    options.maxInstanceDepth = MOST_DEPTH
    options.maxConstexprDepth = MOST_DEPTH
    return options


def _elaboration_excesses(compilation: Compilation, sources: SourceManager) -> list[Excess]:
    engine = DiagnosticEngine(sources)
    diagnostics = list(compilation.getAllDiagnostics())
    found: list[Excess] = [
        (each.location, engine.formatMessage(each)) for each in diagnostics if each.code in BOUNDS
    ]
    # The node visitor does not reach a call whose format does not fit its arguments.
    found += [
        (each.location, ADDRESS)
        for each in diagnostics
        if each.code == Diags.FormatMismatchedType and any(map(_is_virtual, each.args))
    ]

    instances = 0
    root = compilation.getRoot()
    context = EvalContext(root)

    def visit(node: object) -> VisitAction:
        nonlocal instances
        if isinstance(node, InstanceSymbol):
            instances += 1
            if instances > MOST_GENERATED:
                found.append((node.location, f"there are more than {MOST_GENERATED} instances"))
                return VisitAction.Interrupt
        elif isinstance(node, CallExpression):
            found.extend(_addresses(node))
            found.extend(_time_format(node, context))
        elif isinstance(node, VariableSymbol | NetSymbol | FieldSymbol):
            bits = node.type.selectableWidth
            if bits > MOST_BITS:
                message = f"{node.name} has {bits} bits; a variable has at most {MOST_BITS}"
                found.append((node.location, message))
        return VisitAction.Advance

    root.visit(visit)
    return found


def _time_format(call: CallExpression, context: EvalContext) -> Iterator[Excess]:
    if call.subroutineName != "$timeformat":
        return
    for index, each in enumerate(cast("Sequence[Expression]", call.arguments)):
        name, allowed = TIME_FORMAT.get(index, ("", ()))
        value = each.eval(context).value
        if allowed and isinstance(value, SVInt) and int(value) not in allowed:
            message = f"the {name} of $timeformat is {allowed[0]} to {allowed[-1]}, found {value}"
            yield each.sourceRange.start, message


def _addresses(call: CallExpression) -> Iterator[Excess]:
    for each in cast("Sequence[Expression]", call.arguments if call.isSystemCall else ()):
        if _is_virtual(each.type):
            yield each.sourceRange.start, ADDRESS


def _is_virtual(found: object) -> bool:
    return isinstance(found, Type) and found.isVirtualInterface


def _fields(root: SyntaxNode) -> list[Excess]:
    return [
        (token.location, reason)
        for token in nodes(root, Token)
        if token.kind == TokenKind.StringLiteral
        for reason in _in_string(token)
    ]


def _in_string(token: Token) -> Iterator[str]:
    try:
        value = token.valueText
    except UnicodeDecodeError:
        yield NO_TEXT
        return
    widest = max((_widest_request(each) for each in _FIELD.finditer(value)), default=0)
    if widest > MOST_FIELD:
        yield f"a field is {widest} wide; it has at most {MOST_FIELD}"


def _widest_request(conversion: re.Match[str]) -> int:
    return max(int(each[:20] or 0) for each in conversion.groups(default=""))


def circles(root: SyntaxNode) -> Iterator[Excess]:
    """Yield the classes that extend themselves, directly or through others."""
    classes = {_path(node): node for node in nodes(root, ClassDeclarationSyntax)}
    bases = {path: tuple(_bases(node, path, classes)) for path, node in classes.items()}
    for path, node in classes.items():
        if path in _above(path, bases):
            yield node.name.location, f"class {path[-1]} extends itself, by way of what it extends"


def _path(node: SyntaxNode | None) -> Path:
    """Return the names of a definition's enclosing scopes, the outermost first, and its own."""
    names: list[str] = []
    while node is not None:
        if isinstance(node, ClassDeclarationSyntax):
            names.append(node.name.valueText)
        elif isinstance(node, ModuleDeclarationSyntax):
            names.append(node.header.name.valueText)
        node = node.parent
    return tuple(reversed(names))


def _bases(
    node: ClassDeclarationSyntax, path: Path, classes: Mapping[Path, object]
) -> Iterator[Path]:
    """Yield the classes that a class extends or implements, as far as the syntax shows."""
    for each in _inherited(node):
        name = _name(each)
        scopes = (path[:depth] for depth in range(len(path) - 1, -1, -1))
        yield from [(*scope, *name) for scope in scopes if (*scope, *name) in classes][:1]


def _inherited(node: ClassDeclarationSyntax) -> Iterator[object]:
    for clause in cast("Iterable[object]", node):
        if isinstance(clause, ExtendsClauseSyntax):
            yield clause.baseName
        elif isinstance(clause, ImplementsClauseSyntax):
            yield from cast("Iterable[object]", clause.interfaces)


def _name(node: object) -> Path:
    match node:
        case ScopedNameSyntax():
            return _name(node.left) + _name(node.right)
        case ClassNameSyntax() | IdentifierNameSyntax():
            return (node.identifier.valueText,)
        case _:
            return ()


def _above(path: Path, bases: Mapping[Path, Sequence[Path]]) -> set[Path]:
    reached: set[Path] = set()
    pending: list[Path] = [*bases[path]]
    while pending:
        each = pending.pop()
        if each not in reached:
            reached.add(each)
            pending += bases[each]
    return reached
