r"""Finds the design's instance among all instances that Verilator elaborated.

Coverage files name an instance by its printed path, and a printed path can be forged: an escaped
name may contain a dot, so that ``\dut.left`` prints like the instance ``left`` inside ``dut``. The
translated model cannot be forged in this way: each instance is a member of one C++ class under a
unique name, and the model's code shows which member holds which.

Every instance counts: in an array, a generate block, a wrapper, from a macro or under an escaped
name. Coverage may be credited by printed path only after `find_duts` has shown that nothing else
prints like the design's instance or like anything inside it.

Points of an instance that is inlined belong to the class of the module that holds it, whose code
has the end of their printed path.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from coevolve.environments.hdl.simulate.messages import NotCovered, SourceFile, Unit

PREFIX = "Vtb"
"""Prefix of all names and files that Verilator writes."""

HEADER = f"{PREFIX}__Syms.h"
SOURCE = f"{PREFIX}__Syms__Slow.cpp"

ROOT = "TOP"
"""The member that holds all others."""

_MEMBER = re.compile(rf"^ +{PREFIX}_(?:__SYM__)?(\w+) +(TOP\w*);$", re.MULTILINE)
"""Verilator marks the name of a module that has a meaning in C++, such as ``queue``."""

_PRINTED = re.compile(r'^ +(TOP\w*)\.ctor\(this, "(.*)"\);$', re.MULTILINE)
_HELD = re.compile(r"^ +(TOP\w*)\.\w+ = &(TOP\w*);$", re.MULTILINE)
_REGISTERS = re.compile(
    rf"\b{PREFIX}_(?:__SYM__)?(\w+)___configure_coverage\([^)]*\) \{{\n(.*?)^\}}",
    re.MULTILINE | re.DOTALL,
)
_POINT = re.compile(r'first, \w+, "(?:[^"\\]|\\.)*", \d+, \d+, "((?:[^"\\]|\\.)+)"')
"""The registration of a point of an inlined instance."""

_COUNTER = re.compile(r"vlSelf->__Vcoverage \+ (\d+)\b")

MOST_INLINED = 64
"""Maximum number of a part's instances inside the design for which it is inlined: each takes the
code of a module."""

_DECLARED = re.compile(r"\b(?:macro)?module\s+(?:(?:automatic|static)\s+)?(\w+)")

_PLAIN = re.compile(r"[\w$.\[\]-]+")
"""Paths that coverage files print unchanged."""

_DOUBLE = "___05F"
"""Verilator's spelling of two underscores inside a name."""

_CHANGED = "___Vdefparam"
"""Verilator appends it to the name of a module in which a ``defparam`` changes something."""

_BY_DEFPARAM = " but those in which a defparam changes a part, which are not measured"

_PARAMETERS = re.compile(r"__[A-Za-z]\w*")
"""Suffix of the name of a module with changed parameters: the first letter of one, and its value.
Escaped characters of a name start with ``__0`` instead."""


def plain_text(text: str) -> str:
    """Return Verilator's text with two underscores in names restored."""
    return text.replace(_DOUBLE, "__")


@dataclass(frozen=True, kw_only=True)
class Scope:
    """An instance of a module."""

    path: str
    """Path as in coverage files, e.g. ``tb.dut.left``."""

    module: str
    """Module as Verilator writes it; with changed parameters its name has a suffix from ``__``
    on. Empty for an inlined instance."""

    within: tuple[str, ...]
    """Members of the model that hold it, the innermost first."""

    member: str


def sharing(scopes: Sequence[Scope], model: str, unit: Unit) -> frozenset[str]:
    """Return the parts of the design of which an instance may count what another one does.

    Verilator joins the toggle counters of signals that are equal or constant in one instance of a
    module, and the counters are those of all instances (Verilator 5.052).
    """
    modules = {scope.member: scope.module for scope in scopes}
    inside = Counter(
        scope.module
        for scope in scopes
        if any(is_of(modules.get(each, ""), unit.top) for each in scope.within)
    )
    instances = Counter(modules.values())
    joined = [
        module
        for module, body in _REGISTERS.findall(model)
        if instances[module] > 1 and inside[module] <= MOST_INLINED and _has_equal(body)
    ]
    return frozenset(part for part in _parts(unit) if any(is_of(module, part) for module in joined))


def _has_equal(body: str) -> bool:
    counters = _COUNTER.findall(body)
    return len(counters) > len(set(counters))


def _parts(unit: Unit) -> set[str]:
    """Return the modules of the design, but neither its top nor those of its plan alone."""
    return _declared(unit.files) - {unit.top}


def _declared(files: Sequence[SourceFile]) -> set[str]:
    return {name for file in files for name in _DECLARED.findall(file.text)}


def inlining(parts: Set[str], unit: Unit) -> str:
    """Return Verilator settings that inline these parts of the design, and nothing else of it."""
    others = (_parts(unit) | _declared(unit.plan) | {unit.top}) - parts
    lines = ["`verilator_config", *(f'inline -module "{name}"' for name in sorted(parts))]
    lines += [f'no_inline -module "{name}"' for name in sorted(others)]
    return "".join(f"{line}\n" for line in lines)


def read_scopes(header: str, source: str, model: str = "") -> tuple[Scope, ...]:
    """Return the instances that a model's symbol table lists; ``header`` declares its members.

    The model itself, which holds the testbench's top, is left out. Inlined instances with points
    follow, as the code of ``model`` registers them.
    """
    paths = dict(_PRINTED.findall(source))
    holders = {member: holder for holder, member in _HELD.findall(source)}
    found = [
        Scope(
            path=paths.get(member, ""),
            module=module,
            within=tuple(_holders(member, holders)),
            member=member,
        )
        for module, member in _MEMBER.findall(header)
    ]
    return (*(scope for scope in found if scope.member != ROOT), *_inlined(found, model))


def _inlined(holders: Sequence[Scope], model: str) -> Iterator[Scope]:
    registered = {module: set(_POINT.findall(body)) for module, body in _REGISTERS.findall(model)}
    for each in holders:
        for path in sorted(registered.get(each.module, ())):
            yield Scope(
                path=f"{each.path}{path}".removeprefix("."),
                module="",
                within=(each.member, *each.within),
                member=f"{each.member}{path}",
            )


def find_duts(
    scopes: Sequence[Scope], top: str, told: str = "", *, several: bool = False
) -> tuple[str, ...] | NotCovered:
    """Return the printed path of the only instance of module ``top``.

    ``told`` is the name of the instance, or the end of its path, if there may be several. With
    ``several``, each one that has the design's own parameters is returned. In a recursive module,
    an instance inside another one is a part of that one.
    """
    every = {scope.member: scope for scope in scopes if is_of(scope.module, top)}
    duts = [scope for scope in every.values() if every.keys().isdisjoint(scope.within)]
    meant = [scope for scope in duts if is_called(scope.path, told)]
    if several:
        meant = [scope for scope in meant if plain_text(scope.module) == top] or meant[:1]
    if not meant or (len(meant) > 1 and not several):
        called = f" called {told!r}" if told else ""
        found = ", ".join(sorted(scope.path for scope in duts)) or "none"
        changed = any(scope.module.startswith(f"{top}{_CHANGED}") for scope in scopes)
        return NotCovered(
            message=f"the testbench needs exactly one instance of {top}{called}, whose coverage is "
            f"measured (found {found}{_BY_DEFPARAM * changed})"
        )
    for dut in meant:
        if fault := _fault(scopes, top, dut):
            return fault
    return tuple(scope.path for scope in meant)


def is_called(path: str, told: str) -> bool:
    """Return whether ``told`` is the end of the path of an instance, or empty."""
    return not told or f".{path}".endswith(f".{told}")


def _fault(scopes: Sequence[Scope], top: str, dut: Scope) -> NotCovered | None:
    """Return the outcome if coverage of the instance cannot be told from that of others."""
    if plain_text(dut.module) != top:
        return NotCovered(
            message=f"the instance of {top} that is measured needs the design's own parameters, "
            "found others; leave them out"
        )
    if not _PLAIN.fullmatch(dut.path) or plain_text(dut.path) != dut.path:
        return NotCovered(
            message=f"the instance of {top} that is measured needs a plain path, found {dut.path}"
        )
    for other in scopes:
        if other is not dut and dut.member not in other.within and prints_inside(other, dut.path):
            return NotCovered(
                message=f"an instance that is not inside of {dut.path} is called {other.path}, as "
                "if it were; give it another name"
            )
    return None


def _holders(member: str, holders: Mapping[str, str]) -> Iterator[str]:
    while member := holders.get(member, ""):
        yield member


def is_of(module: str, top: str) -> bool:
    """Return whether Verilator's name of a module is that of ``top``, with any parameters."""
    name = top.replace("__", _DOUBLE)
    if not module.startswith(name):
        return False
    further = module.removeprefix(name)
    return not further or _PARAMETERS.fullmatch(further) is not None


def prints_inside(scope: Scope, dut: str) -> bool:
    """Return whether the scope prints like the instance at ``dut`` or like anything inside it."""
    path = plain_text(scope.path)
    return path == dut or path.startswith(f"{dut}.")
