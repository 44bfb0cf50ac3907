"""Reads a file list as Verilator does: sources, include folders, macros, parameters, libraries.

A list is a file for ``-f``: words of a command line, with comments, and the variables of the
environment. Options that change neither what is read nor what it means (warnings, traces, the C++
that is made) are left out, with their values.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from protocols.errors import ConfigError

SOURCES = (".v", ".sv", ".vh", ".svh", ".h", ".inc", ".vhd")
FOREIGN = (".c", ".cc", ".cpp", ".cxx", ".o", ".a", ".so", ".vlt", ".py", ".hpp")
"""Files of a list that are no hardware."""

MANIFESTS = {
    ".core": "`fusesoc run --setup --tool verilator NAME`, and give the .vc file that it writes",
    ".yml": "`bender script flist-plus > project.f`, and give project.f",
}
"""What makes a list of the manifest of another tool, by its ending."""

MOST_NESTED = 16
_WITH_VALUE = frozenset(
    {
        *("CFLAGS", "LDFLAGS", "MAKEFLAGS", "Mdir", "prefix", "mod-prefix", "o", "j", "threads"),
        *("build-jobs", "verilate-jobs", "output-split", "output-split-cfuncs", "trace-depth"),
        *("trace-threads", "compiler", "exe-name", "lib-create", "protect-lib", "protect-key"),
        *("coverage-max-width", "coverage-expr-max", "unroll-count", "unroll-stmts", "l2-name"),
        *("converge-limit", "x-assign", "x-initial", "x-initial-edge", "work", "gdb", "FI"),
        *("error-limit", "reloop-limit", "inline-mult", "if-depth", "comp-limit-parens", "rr"),
        *("hierarchical-threads", "pipe-filter", "prof-cfuncs", "timescale-override"),
    }
)
"""Options without effect here whose value is the next word."""

_KEPT_WITH_VALUE = frozenset({"y", "v", "timescale", "default-language", "language"})
_MACROS, _PARAMETER = re.compile(r"\+define\+|-D"), re.compile(r"-G|-pvalue\+")
_FOLDERS = re.compile(r"\+incdir\+|-I")
_KEPT = re.compile(r"\+libext\+|\+\w+ext\+|--?relative-includes$|--?bbox")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|\((\w+)\)|(\w+))")
_WORD = re.compile(r'//[^\n]*|#[^\n]*|/\*.*?\*/|((?:"(?:\\.|[^"\\])*"|\\\n|[^\s"])+)', re.DOTALL)


@dataclass(kw_only=True)
class FileList:
    """What a list says, in its order."""

    files: list[Path] = field(default_factory=list[Path])
    options: list[str] = field(default_factory=list[str])
    """For Verilator: folders, libraries, and the language."""

    defines: dict[str, str] = field(default_factory=dict[str, str])
    parameters: dict[str, str] = field(default_factory=dict[str, str])
    foreign: list[Path] = field(default_factory=list[Path])
    """C++ and other files that are no hardware."""


def read_lists(paths: Sequence[Path]) -> FileList:
    """Return what lists and sources say together.

    Raises ConfigError where a file is missing or an option says nothing that can be read.
    """
    made = FileList()
    for path in paths:
        if tool := MANIFESTS.get(path.suffix):
            raise ConfigError(f"{path}: needs a file list, found a manifest; run {tool}")
        if path.suffix.lower() in SOURCES:
            made.files.append(_existing(path, Path(), str(path)))
        else:
            _read(path, Path(), made, 0)
    if not made.files:
        raise ConfigError(f"{paths[0]}: needs at least one source of hardware, found none")
    return made


def _read(path: Path, base: Path, made: FileList, depth: int) -> None:
    """Add the list at ``path``, whose relative paths start at ``base``."""
    if depth > MOST_NESTED:
        raise ConfigError(f"{path}: lists are nested more than {MOST_NESTED} deep")
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    places = (base, path.parent)
    words = _words(text, path)
    for where, word in words:
        name = word.lstrip("-") if word.startswith("-") else ""
        if name in ("f", "F"):
            nested = _existing(_next(words, where, word), base, where, places)
            _read(nested, nested.parent if name == "F" else base, made, depth + 1)
        elif name in _KEPT_WITH_VALUE or name in ("top-module", "top"):
            value = _next(words, where, word)
            if name in ("y", "v"):
                made.options += [word, str(_existing(value, base, where, places))]
            elif not name.startswith("top"):
                made.options += [word, str(value)]
        elif name in _WITH_VALUE:
            _next(words, where, word)
        else:
            _add(word, where, places, made)


def _add(word: str, where: str, places: Sequence[Path], made: FileList) -> None:
    if match := _MACROS.match(word):
        for each in word[match.end() :].split("+"):
            key, _, value = each.partition("=")
            made.defines[key] = _unquoted(value)
    elif match := _PARAMETER.match(word):
        key, _, value = word[match.end() :].partition("=")
        made.parameters[key] = value
    elif match := _FOLDERS.match(word):
        named = word[match.end() :]
        for each in filter(None, [named] if word.startswith("-I") else named.split("+")):
            made.options.append(f"-I{_placed(Path(each), places)}")
    elif _KEPT.match(word):
        made.options.append(word)
    elif not word.startswith(("-", "+")):
        path = Path(_unquoted(word))
        if path.suffix.lower() in FOREIGN:
            made.foreign.append(path)
        else:
            made.files.append(_existing(path, places[0], where, places))


def _words(text: str, path: Path) -> Iterator[tuple[str, str]]:
    """Yield each word with its place, ``file:line``."""
    for match in _WORD.finditer(text):
        if match[1]:
            line = text.count("\n", 0, match.start()) + 1
            yield f"{path}:{line}", _VARIABLE.sub(_variable, match[1].replace("\\\n", ""))


def _variable(match: re.Match[str]) -> str:
    return os.environ.get(match[1] or match[2] or match[3], match[0])


def _next(words: Iterator[tuple[str, str]], where: str, option: str) -> Path:
    found = next(words, None)
    if found is None:
        raise ConfigError(f"{where}: {option} needs a value behind it, found the end of the list")
    return Path(_unquoted(found[1]))


def _unquoted(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] == '"' else word


def _placed(path: Path, places: Sequence[Path]) -> Path:
    """Return the path under the first of ``places`` that has it, as it is if none does."""
    return next((each / path for each in places if (each / path).exists()), path)


def _existing(path: Path, base: Path, where: str, places: Sequence[Path] = ()) -> Path:
    found = _placed(path, places or (base,))
    if not found.exists():
        raise ConfigError(
            f"{where}: needs the file {path}, found none; give the list from the folder that its "
            "paths start at, or set the variable that the path names"
        )
    return found
