"""Copies the files of a project into one folder, each under a name of its own.

A copy has the lines of its original. What changes is the operand of an ``include``, which names the
copy; a parameter's value, where the design is adopted with another one; and the name of a data file
outside of the project's folder. An ``include`` in a branch that is not compiled stays as it is.
"""

import contextlib
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec
from pyslang import SourceManager
from pyslang.ast import ParameterSymbol, TypeParameterSymbol
from pyslang.syntax import (
    CompilationUnitSyntax,
    DeclaratorSyntax,
    SyntaxKind,
    SyntaxNode,
    TypeAssignmentSyntax,
)

from coevolve.environments.hdl.adopt.reading import Sources
from coevolve.environments.hdl.designs.rtl import HEADERS, Rtl, elaborate_here, parse
from coevolve.environments.hdl.gate.encoding import rtl_text
from coevolve.environments.hdl.gate.tokens import read
from coevolve.environments.hdl.simulate.messages import SourceFile
from protocols.errors import ConfigError

DEFINES = "adopted_macros.sv"
"""The file with the macros of the command line, which is compiled first."""

RESERVED = frozenset({"tb.sv", DEFINES})
_INCLUDE = re.compile(r'`include[ \t]+("[^"\n]*"|<[^>\n]*>|`\w+)')
_DIRECTIVES = re.compile(r"`(?:define|undef|include)")
_SETTING = re.compile(r"`(?:define|undef)")
_DECLARED = re.compile(r"\b(?:macromodule|module|interface)\s+(?:automatic\s+|static\s+)?(\w+)")
_MADE = re.compile(r"`define\s+(\w+)")
_ASKED = re.compile(r"`(?:ifn?def|elsif)\s+(\w+)")
_MODULES = (SyntaxKind.ModuleDeclaration, SyntaxKind.InterfaceDeclaration)
_STRANGE = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, kw_only=True)
class Copies:
    """The files of a design, and the original of each."""

    files: tuple[SourceFile, ...]
    origins: Mapping[str, Path]


def copies(sources: Sources, defines: Mapping[str, str]) -> Copies:
    """Return the copies. Raises ConfigError where a file is no text."""
    compiled = list(dict.fromkeys(path.resolve() for path in sources.compiled))
    included = list(dict.fromkeys(path.resolve() for path in sources.includes.values()))
    names = _names(compiled, included)
    files: list[SourceFile] = []
    if defines:
        lines = (f"`define {name} {value}".rstrip() for name, value in defines.items())
        files.append(SourceFile(name=DEFINES, text="\n".join(lines) + "\n"))
    for (path, _), name in names.items():
        text = _with_includes(_text(path), path, sources, names)
        files.append(SourceFile(name=name, text=text))
    return Copies(files=tuple(files), origins={name: path for (path, _), name in names.items()})


_Names = Mapping[tuple[Path, bool], str]
"""Names of the copies, by the original and whether it is a header."""


def _names(compiled: Sequence[Path], included: Sequence[Path]) -> _Names:
    """Return the last parts of each path, as many as make the name unique."""
    every = [*((path, True) for path in included), *((path, False) for path in compiled)]
    made: dict[tuple[Path, bool], str] = {}
    taken = set(RESERVED)
    for path, header in every:
        name = next(each for each in _candidates(path, header=header) if each not in taken)
        taken.add(name)
        made[path, header] = name
    return made


def _candidates(path: Path, *, header: bool) -> Iterator[str]:
    parts = path.parts[1:]
    for count in range(1, len(parts) + 1):
        name = _STRANGE.sub("_", "-".join(parts[-count:])).lstrip(".-")[-90:]
        yield _suffixed(name, header=header)
    for number in range(2, 1000):
        yield _suffixed(f"{number}-{_STRANGE.sub('_', path.name)}", header=header)


def _suffixed(name: str, *, header: bool) -> str:
    """Return the name with an ending that says whether it is compiled by itself."""
    if header:
        return name if name.endswith(HEADERS) else f"{name}.svh"
    return name if name.endswith((".v", ".sv")) else f"{name}.sv"


def _text(path: Path) -> str:
    try:
        return rtl_text(path.read_bytes()).replace("\r\n", "\n").replace("\r", "\n")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error


def _with_includes(text: str, path: Path, sources: Sources, names: _Names) -> str:
    def renamed(match: re.Match[str]) -> str:
        line = text.count("\n", 0, match.start()) + 1
        target = sources.includes.get((path, line))
        if target is None:
            return match[0]
        return f'`include "{names[target.resolve(), True]}"'

    return _INCLUDE.sub(renamed, text)


def with_parameters(rtl: Rtl, values: Mapping[str, str]) -> tuple[SourceFile, ...]:
    """Return the files of ``rtl`` with other values for parameters of its top module.

    Raises ConfigError where the top has no such parameter, or a macro writes its value.
    """
    found = {
        each.name: each
        for each in cast("Iterable[object]", rtl.top.parameters)
        if isinstance(each, ParameterSymbol | TypeParameterSymbol) and not each.isLocalParam
    }
    texts = {file.name: file.text.encode() for file in rtl.unit.files}
    for name in values.keys() - found.keys():
        raise ConfigError(
            f"{rtl.unit.top}: there is no parameter {name} to give the value {values[name]}; it "
            f"has {', '.join(found) or 'none'}"
        )
    edits = sorted((_edit(rtl, found[name], value) for name, value in values.items()), reverse=True)
    for file, start, end, value in edits:
        texts[file] = texts[file][:start] + value.encode() + texts[file][end:]
    return tuple(
        SourceFile(name=file.name, text=texts[file.name].decode()) for file in rtl.unit.files
    )


def _edit(
    rtl: Rtl, parameter: ParameterSymbol | TypeParameterSymbol, value: str
) -> tuple[str, int, int, str]:
    """Return the file, first and last byte of a parameter's value, and the new one."""
    syntax = cast("SyntaxNode | None", parameter.syntax)
    given: object = None
    if isinstance(syntax, DeclaratorSyntax):
        given = syntax.initializer and syntax.initializer.expr
    elif isinstance(syntax, TypeAssignmentSyntax):
        given = syntax.assignment and syntax.assignment.type
    if syntax is None or not isinstance(given, SyntaxNode):
        end = syntax.sourceRange.end if syntax else parameter.location
        return rtl.sources.getFileName(end), end.offset, end.offset, f" = {value}"
    at = given.sourceRange
    if rtl.sources.isMacroLoc(at.start) or rtl.sources.isMacroLoc(at.end):
        where = parameter.location
        raise ConfigError(
            f"{rtl.sources.getFileName(where)}:{rtl.sources.getLineNumber(where)}: a macro writes "
            f"the value of the parameter {parameter.name}; give the macro by +define+ instead"
        )
    return rtl.sources.getFileName(at.start), at.start.offset, at.end.offset, value


def needed(rtl: Rtl, used: Iterable[str]) -> Rtl:
    """Return the design without files that have only modules which the top does not use.

    ``used`` has the files of the modules below the top. A file that also sets macros or declares
    packages stays, since others may need them. One that includes headers stays if a used file asks
    whether one of their macros is set, or cannot be read without it.
    """
    names = {*used, *(file.name for file in rtl.unit.files if file.name.endswith(HEADERS))}
    named_by = _named_by(rtl.unit.files)
    careful, lean = (
        _without(rtl.unit.files, names, named_by, each) for each in (_DIRECTIVES, _SETTING)
    )
    if len(lean) < len(careful) and not _asked(lean):
        with contextlib.suppress(ConfigError):
            return elaborate_here(msgspec.structs.replace(rtl.unit, files=lean))
    return elaborate_here(msgspec.structs.replace(rtl.unit, files=careful))


def _named_by(files: Sequence[SourceFile]) -> Mapping[str, Sequence[str]]:
    """Return, by the name of a file, the files whose modules and interfaces it names."""
    declared = {file.name: _DECLARED.findall(file.text) for file in files}
    words = {file.name: {word.name for word in read(file.text)[0]} for file in files}
    return {
        name: [other for other, found in declared.items() if not named.isdisjoint(found)]
        for name, named in words.items()
    }


def _without(
    files: Sequence[SourceFile],
    used: Container[str],
    named_by: Mapping[str, Sequence[str]],
    matters: re.Pattern[str],
) -> tuple[SourceFile, ...]:
    """Return the files that are used, have more than modules, or a directive that matters.

    With them stay those of the modules and interfaces that they name.
    """
    kept = {
        file.name
        for file in files
        if file.name in used or matters.search(file.text) or not _only_modules(file)
    }
    pending = list(kept)
    while pending:
        found = set(named_by[pending.pop()]) - kept
        kept |= found
        pending += found
    return tuple(file for file in files if file.name in kept)


def _asked(files: Sequence[SourceFile]) -> bool:
    """Return whether a file asks for a macro that a header sets."""
    headers = [file.text for file in files if file.name.endswith(HEADERS)]
    others = [file.text for file in files if not file.name.endswith(HEADERS)]
    made = {name for text in headers for name in _MADE.findall(text)}
    return any(name in made for text in others for name in _ASKED.findall(text))


def _only_modules(file: SourceFile) -> bool:
    root = parse([file], SourceManager()).root
    if not isinstance(root, CompilationUnitSyntax):
        return root.kind in _MODULES
    return all(each.kind in _MODULES for each in cast("Iterable[SyntaxNode]", root.members))
