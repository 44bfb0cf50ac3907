"""The source gate: finds what a testbench may not contain, before anything is compiled.

It works on pyslang's tokens. Words that are always refused (system tasks beyond
`hdl.gate.rules.TASKS`, directives, keywords) are searched for in the original text, in all branches
of an ``ifdef`` and in macros. What is refused because of neighbouring words (a reference into the
design, a parameter for it) is searched for after `hdl.gate.macros` has expanded the macros. Strings
and comments may contain anything, except that a comment may not be a simulator's pragma.

The gate covers access to files and programs, foreign functions, coverage pragmas and forged
positions; for the design, its redefinition, and any reference past its ports that is not proven to
read only (`hdl.gate.reads`). A testbench may use parts of the design as its own, with parameters
where these cannot name a file and the design has no secret. (`hdl.gate.parameters` compares the
parameters of the design itself.) It returns for any text, in time proportional to the text or to
`MOST_TOKENS`.

It does not cover the time and memory of a testbench, which the sandbox limits, nor whether it
compiles. It recognizes an instance of the design by the name of its module; anything else with the
name of an instance, for example a variable with members, is treated as the instance.
"""

import contextlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from coevolve.environments.hdl.gate.below import modules_below, names_by_module
from coevolve.environments.hdl.gate.macros import Expansion, Macro, RefusedError, separate
from coevolve.environments.hdl.gate.rules import (
    CLOSING,
    DIRECTIVES,
    HIERARCHY,
    KEYWORDS,
    LOADS,
    MODES,
    MOST_BYTES,
    MOST_MESSAGE,
    MOST_VIOLATIONS,
    OPENING,
    OPENS,
    PREDEFINED,
    TASKS,
)
from coevolve.environments.hdl.gate.scope import UNITS, declared_outside, imports_outside
from coevolve.environments.hdl.gate.tokens import Comment, Positions, Word, read
from coevolve.environments.hdl.simulate.messages import SourceFile, Unit, Violation
from coevolve.environments.sdk import plain

_PRAGMA = re.compile(
    r"/[/*]\s*(?:[vV]erilator\b|(?:synopsys|synthesis|cadence|pragma|vcs)\s+(?:coverage|translate))"
)
_FORBIDDEN_BYTES = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)")
_PLAIN_FILE = re.compile(r'"\w[\w.-]*"')
_MODULES = frozenset({"module", "macromodule"})
_DEFINE = ("directive", "define")
_REFERENCE = "a reference into "
_LIFETIMES = frozenset({"automatic", "static"})

Finding = tuple[int, str]
"""Offset and message."""

Span = tuple[int, int]
"""Bytes before a place and before what follows it."""


def violations(
    text: str, unit: Unit, *, instance: str = "", reads: Sequence[Span] = ()
) -> tuple[Violation, ...]:
    """Return the violations in the testbench ``text`` of ``unit``, in the order of the text.

    ``instance`` is a name that always counts as the design's instance, ``reads`` has the places of
    references into the design that `hdl.gate.reads` has proven to be harmless.
    """
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        return (Violation(line=1, column=1, message="the text is not Unicode"),)
    positions = Positions(encoded)
    findings = sorted(set(_findings(text, encoded, unit, instance, reads)))
    return tuple(
        Violation(line=line, column=column, message=plain(message, MOST_MESSAGE))
        for offset, message in findings[:MOST_VIOLATIONS]
        for line, column in (positions.of(offset),)
    )


def only_references(found: Sequence[Violation]) -> bool:
    """Return whether every violation is a reference into the design, which may only read it."""
    return all(each.message.endswith(HIERARCHY) and _REFERENCE in each.message for each in found)


def _findings(
    text: str, encoded: bytes, unit: Unit, instance: str, reads: Sequence[Span]
) -> Iterator[Finding]:
    if len(encoded) > MOST_BYTES:
        yield 0, f"a testbench has at most {MOST_BYTES} bytes, this one {len(encoded)}"
        return
    for match in _FORBIDDEN_BYTES.finditer(encoded):
        yield match.start(), f"control character {match[0][0]} in the text"
        return
    design = _design(unit.files, unit.top)
    words, comments = read(text)
    yield from _in_comments(comments)
    yield from _in_words(words, design, {each.name for each in unit.data})
    yield from _in_pairs(words)
    try:
        source = separate(words, design.macros)
        expanded = Expansion(macros=source.macros).of(source.words)
    except RefusedError as refused:
        yield refused.word.offset, refused.reason
        return
    fixed = design.modules if design.reaches_out or unit.keeps_secret else frozenset[str]()
    yield from _in_parameters(expanded, fixed - {unit.top})
    for offset, message in _in_references(expanded, design.modules, instance):
        if _REFERENCE not in message or not any(start <= offset < end for start, end in reads):
            yield offset, message
    yield from _in_declarations(expanded, design.units)
    if design.imports_outside:
        yield from declared_outside(expanded)


@dataclass(frozen=True, kw_only=True)
class _Design:
    """The gate's facts about the RTL."""

    macros: Mapping[str, Macro]
    modules: frozenset[str]
    """Those that may be part of the design; see `hdl.gate.below`."""

    units: frozenset[str]
    """Modules, interfaces, programs and packages."""

    imports_outside: bool

    reaches_out: bool
    """Whether a module calls more than the system tasks that any text may call: the value of a
    parameter may be the name of a file then."""


@lru_cache(maxsize=64)
def _design(files: tuple[SourceFile, ...], top: str) -> _Design:
    macros: Mapping[str, Macro] = {}
    texts: dict[str, set[str]] = {}
    units: set[str] = set()
    imports = reaches_out = False
    for file in files:
        words, _ = read(file.text)
        imports |= imports_outside(words)
        reaches_out |= any(_reaches_out(word) for word in words)
        with contextlib.suppress(RefusedError):
            macros = separate(words, macros).macros
        declared = list(_declarations(words))
        units |= {name.name for _, name in declared}
        modules = (name for keyword, name in declared if keyword.name in _MODULES)
        for module, name in names_by_module(words, modules):
            texts.setdefault(module, set()).add(name)
    return _Design(
        macros=macros,
        modules=modules_below(top, texts, (each.body for each in macros.values())),
        units=frozenset(units),
        imports_outside=imports,
        reaches_out=reaches_out,
    )


def _reaches_out(word: Word) -> bool:
    return (
        word.name.startswith('"DPI')
        if word.kind == "string"
        else (word.kind == "task" and word.name not in TASKS)
    )


def _declarations(words: Sequence[Word]) -> Iterator[tuple[Word, Word]]:
    """Yield each design unit's keyword and name."""
    for at, word in enumerate(words):
        if word.keyword and word.name in UNITS and (at == 0 or words[at - 1].name != "virtual"):
            name = at + 1
            while name < len(words) and words[name].name in _LIFETIMES:
                name += 1
            if name < len(words):
                yield word, words[name]


def _in_comments(comments: Sequence[Comment]) -> Iterator[Finding]:
    for comment in comments:
        if match := _PRAGMA.match(comment.text):
            yield comment.offset, f"a comment may not begin with {match[0][2:].strip()!r}"
        if comment.text.startswith("//") and comment.text.rstrip().endswith("\\"):
            yield comment.offset, "a comment may not end with a backslash"


def _in_words(words: Sequence[Word], design: _Design, data: Collection[str]) -> Iterator[Finding]:
    defined = {after.name for word, after in pairwise(words) if (word.kind, word.name) == _DEFINE}
    directives = DIRECTIVES | PREDEFINED | defined | design.macros.keys()
    for at, word in enumerate(words):
        match word.kind:
            case "task":
                yield from _in_task(word, words[at + 1 : at + 6], data)
            case "directive" if word.name not in directives:
                yield (
                    word.offset,
                    f"`{word.name} is neither a defined macro nor an allowed directive",
                )
            case "word" if word.keyword and word.name in KEYWORDS:
                yield word.offset, f"{word.name!r} may not be used; {KEYWORDS[word.name]}"
            case "paste":
                yield word.offset, "names may not be pasted together with ``"
            case "string" if word.name.startswith('"""'):
                yield word.offset, "a string has one quotation mark on either side"
            case "other" if word.name == "`":
                yield word.offset, "a backquote needs the name of a macro"
            case _:
                pass


def _in_task(task: Word, after: Sequence[Word], data: Collection[str]) -> Iterator[Finding]:
    """Yield what is wrong with a system task, which stands before ``after``."""
    if task.name in LOADS or task.name == OPENS:
        if not _loads(after, data) or (task.name == OPENS and not _only_reads(after)):
            mode = ', and "r"' if task.name == OPENS else ""
            yield (
                task.offset,
                f"{task.name} needs the name of one of the design's data files, as a string{mode} "
                f"(found {', '.join(sorted(data)) or 'none'})",
            )
    elif task.name not in TASKS:
        yield task.offset, f"{task.name} may not be used"
    elif not _harmless(task, after):
        yield task.offset, f"{task.name} needs the plain name of a file, as a string"


def _loads(after: Sequence[Word], data: Collection[str]) -> bool:
    """Return whether the words behind a task begin its arguments with the name of a given file."""
    return [each.name for each in after[:2]] in [["(", f'"{name}"'] for name in data]


def _only_reads(after: Sequence[Word]) -> bool:
    """Return whether the words behind ``$fopen`` end its arguments with a mode that only reads."""
    comma, mode, end = ([each.name for each in after[2:5]] + [""] * 3)[:3]
    return (comma, end) == (",", ")") and mode in MODES


def _harmless(task: Word, after: Sequence[Word]) -> bool:
    names = [each.name for each in after[:3]]
    if task.name != "$dumpfile":
        return True
    return len(names) == 3 and names[::2] == ["(", ")"] and bool(_PLAIN_FILE.fullmatch(names[1]))


def _in_pairs(words: Sequence[Word]) -> Iterator[Finding]:
    """Yield places where two neighbours could form one name."""
    quoted = False
    for at, (before, word) in enumerate(pairwise(words)):
        quoted ^= before.kind == "quote"
        if quoted and word.kind == "string":
            yield word.offset, 'a string may not stand between `" and `"'
        if not (before.name_like() and word.touches):
            continue
        if word.kind == "directive":
            yield word.offset, f"put a blank before `{word.name}"
        elif word.after_comment and word.goes_on():
            yield word.offset, f"put a blank before {word.name}"
        elif word.kind == "continuation" and at + 2 < len(words):
            after = words[at + 2]
            if after.goes_on() and after.offset - word.offset <= len("\\\r\n"):
                yield word.offset, "put a blank before the backslash"


def _in_declarations(words: Sequence[Word], units: frozenset[str]) -> Iterator[Finding]:
    for keyword, name in _declarations(words):
        if name.name in units:
            yield (
                name.offset,
                f"{name.name} is part of the design; give the {keyword.name} another name",
            )
    for word, after in pairwise(words):
        if word.name in ("import", "export") and word.keyword and after.kind in ("string", "quote"):
            yield word.offset, f"{word.name} of foreign functions (DPI) may not be used"


def _in_parameters(words: Sequence[Word], fixed: frozenset[str]) -> Iterator[Finding]:
    """Yield where a module of ``fixed`` is given parameters."""
    for at, (word, sign) in enumerate(pairwise(words)):
        given = [each.name for each in words[at + 2 : at + 4]] != ["(", ")"]
        if (word.kind, sign.name) == ("word", "#") and word.name in fixed and given:
            yield sign.offset, f"{word.name} has its own parameters; leave out #"


def _in_references(
    words: Sequence[Word], modules: frozenset[str], instance: str
) -> Iterator[Finding]:
    closings = _closings(words)
    inside = {*modules, instance} - {""}
    for at, word in enumerate(words):
        if word.kind != "word" or word.name not in modules:
            continue
        name = at + 1
        if _is(words, name, "#"):
            name = closings.get(at + 2, at + 2) + 1
        inside |= _instances(words, name, closings)
    for at, word in enumerate(words):
        if word.kind != "word" or word.name not in inside:
            continue
        if _is(words, _after_ranges(words, at + 1, closings), "."):
            yield word.offset, f"{_REFERENCE}{word.name!r}; {HIERARCHY}"


def _instances(words: Sequence[Word], at: int, closings: Mapping[int, int]) -> set[str]:
    """Return the names in ``name [range] (ports), name (ports)`` from ``at`` on."""
    names: set[str] = set()
    while at < len(words) and words[at].kind == "word":
        ports = _after_ranges(words, at + 1, closings)
        if not _is(words, ports, "(") or ports not in closings:
            break
        names.add(words[at].name)
        at = closings[ports] + 1
        if not _is(words, at, ","):
            break
        at += 1
    return names


def _is(words: Sequence[Word], at: int, name: str) -> bool:
    return at < len(words) and words[at].name == name


def _after_ranges(words: Sequence[Word], at: int, closings: Mapping[int, int]) -> int:
    while _is(words, at, "[") and at in closings:
        at = closings[at] + 1
    return at


def _closings(words: Sequence[Word]) -> dict[int, int]:
    """Return the index of each opening bracket's counterpart, whatever the kinds of bracket."""
    opened: list[int] = []
    closings: dict[int, int] = {}
    for at, word in enumerate(words):
        if word.name in OPENING:
            opened.append(at)
        elif word.name in CLOSING and opened:
            closings[opened.pop()] = at
    return closings
