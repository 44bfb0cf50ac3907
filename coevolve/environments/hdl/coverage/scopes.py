r"""Finds the design's instance among all instances that Verilator elaborated.

Coverage files name an instance by its printed path, and a printed path can be forged: an escaped
name may hold a dot, so that ``\dut.left`` prints as the instance ``left`` inside ``dut`` would.
The translated model cannot be deceived in this way. Each instance is a member of one C++ class, so
its name there is its own, and the model says which member holds which.

Every instance counts, however it came about: in an array, a generate block, a wrapper, by a macro
or under an escaped name. Coverage may be credited by printed path only after `find_dut` has shown
that nothing else prints like the design's instance or like anything inside of it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from coevolve.environments.hdl.simulate.messages import NotCovered

PREFIX = "Vtb"
"""Of everything that Verilator writes."""

HEADER = f"{PREFIX}__Syms.h"
SOURCE = f"{PREFIX}__Syms__Slow.cpp"

ROOT = "TOP"
"""The member that holds all others."""

_MEMBER = re.compile(rf"^ +{PREFIX}_(\w+) +(TOP\w*);$", re.MULTILINE)
_PRINTED = re.compile(r'^ +(TOP\w*)\.ctor\(this, "(.*)"\);$', re.MULTILINE)
_HELD = re.compile(r"^ +(TOP\w*)\.\w+ = &(TOP\w*);$", re.MULTILINE)
_PLAIN = re.compile(r"[\w$.\[\]-]+")
"""Paths that coverage files print as they are."""

_DOUBLE = "___05F"
"""How Verilator writes two underscores inside of a name."""

_PARAMETERS = re.compile(r"__[A-Za-z]\w*")
"""Behind the name of a module with other parameters: the first letter of one, and its value.
Escaped characters of a name are written as ``__0`` and more."""


def plain_text(text: str) -> str:
    """Return what Verilator wrote, names with their two underscores again."""
    return text.replace(_DOUBLE, "__")


@dataclass(frozen=True, kw_only=True)
class Scope:
    """An instance of a module."""

    path: str
    """As coverage files print it, ``tb.dut.left``."""

    module: str
    """As Verilator writes it: that of other parameters has ``__`` and more behind its name."""

    within: tuple[str, ...]
    """The members of the model that hold it, the innermost first."""

    member: str


def read_scopes(header: str, source: str) -> tuple[Scope, ...]:
    """Return the instances that a model's symbol table lists; ``header`` declares its members.

    The model itself, which holds the testbench's top, is none.
    """
    paths = dict(_PRINTED.findall(source))
    holders = {member: holder for holder, member in _HELD.findall(source)}
    return tuple(
        Scope(
            path=paths.get(member, ""),
            module=module,
            within=tuple(_holders(member, holders)),
            member=member,
        )
        for module, member in _MEMBER.findall(header)
        if member != ROOT
    )


def find_dut(scopes: Sequence[Scope], top: str, told: str = "") -> str | NotCovered:
    """Return the printed path of the only instance of module ``top``.

    ``told`` is the name of the instance that is meant where there may be several. An instance of a
    recursive module inside of another one is a part of that one.
    """
    every = {scope.member: scope for scope in scopes if _is_of(scope.module, top)}
    duts = [scope for scope in every.values() if every.keys().isdisjoint(scope.within)]
    meant = [scope for scope in duts if not told or scope.path.rpartition(".")[2] == told]
    if len(meant) != 1:
        called = f" called {told!r}" if told else ""
        found = ", ".join(sorted(scope.path for scope in duts)) or "none"
        return NotCovered(
            message=f"the testbench needs exactly one instance of {top}{called}, which is what is "
            f"measured (found {found})"
        )
    dut = meant[0]
    if not _PLAIN.fullmatch(dut.path) or plain_text(dut.path) != dut.path:
        return NotCovered(
            message=f"the instance of {top} that is measured needs a plain path, found {dut.path}"
        )
    for other in scopes:
        if other is not dut and dut.member not in other.within and _prints_inside(other, dut):
            return NotCovered(
                message=f"an instance that is not inside of {dut.path} is called {other.path}, as "
                "if it were; give it another name"
            )
    return dut.path


def _holders(member: str, holders: Mapping[str, str]) -> Iterator[str]:
    while member := holders.get(member, ""):
        yield member


def _is_of(module: str, top: str) -> bool:
    name = top.replace("__", _DOUBLE)
    if not module.startswith(name):
        return False
    further = module.removeprefix(name)
    return not further or _PARAMETERS.fullmatch(further) is not None


def _prints_inside(scope: Scope, dut: Scope) -> bool:
    path = plain_text(scope.path)
    return path == dut.path or path.startswith(f"{dut.path}.")
