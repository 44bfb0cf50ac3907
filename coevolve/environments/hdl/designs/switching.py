"""Makes one design that holds many mutants, each behind a switch that the simulation sets.

A testbench is compiled with the switched design once, and runs on each mutant for the cost of a
simulation alone. Number 0 is the design itself. A mutant is an expression that chooses between the
design's and the mutant's, or a statement that is skipped. Inside the mutant's expression all else
is the design's, so the text grows by each expression once.

The switch is a variable of a package, which `coevolve_mutant()` of the simulation's C++ gives its
value before time 0. Some places need constants (a replication, the width of a part), and take no
switch; `hdl.simulate.trial` finds those by compiling.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from coevolve.environments.hdl.designs.design import Mutant
from coevolve.environments.hdl.designs.mutating import Edit, edited
from coevolve.environments.hdl.designs.rtl import Rtl
from coevolve.environments.hdl.simulate.messages import SourceFile, Unit

PACKAGE = "coevolve_mutants"
SWITCH = SourceFile(
    name=f"{PACKAGE}.sv",
    text=f"""package {PACKAGE};
  import "DPI-C" function int coevolve_mutant();
  int active = coevolve_mutant();
endpackage
""",
)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A mutant, and where it differs, in bytes of its file."""

    mutant: Mutant
    skips: bool
    """Whether a statement is left out, in place of another expression."""

    start: int
    end: int
    """Ends of the whole expression or statement, together with ``start``."""

    text: str
    """The mutant's expression."""


def places(rtl: Rtl, most: int) -> tuple[Place, ...]:
    """Return at most ``most`` mutants of the whole design, spread evenly over its modules."""
    found = [_place(rtl, *each) for each in edited(rtl) if _is_whole(rtl, each[1])]
    share = min(most, len(found))
    return tuple(found[index * len(found) // share] for index in range(share))


def switched(unit: Unit, chosen: Sequence[Place]) -> Unit:
    """Return the design in which ``coevolve_mutant()`` selects a place by its number, from 1."""
    numbered = list(enumerate(chosen, 1))
    files = tuple(
        msgspec.structs.replace(
            file,
            text=_render(
                file.text.encode(),
                (0, len(file.text.encode())),
                [each for each in numbered if each[1].mutant.file == file.name],
            ).decode(),
        )
        for file in unit.files
    )
    return msgspec.structs.replace(
        unit, files=(SWITCH, *files), plan=(), points_sha256="", unreachable=()
    )


def _is_whole(rtl: Rtl, edit: Edit) -> bool:
    """Return whether the whole expression stands in one file, not in a macro."""
    start, end = edit.around.start, edit.around.end
    macro = rtl.sources.isMacroLoc(start) or rtl.sources.isMacroLoc(end)
    return not macro and start.buffer == end.buffer == edit.start.buffer


def _place(rtl: Rtl, mutant: Mutant, edit: Edit) -> Place:
    text = rtl.sources.getSourceText(edit.start.buffer).encode()
    start, end = edit.around.start.offset, edit.around.end.offset
    before, after = text[start : edit.start.offset], text[edit.end.offset : end]
    other = before.decode() + edit.text + after.decode()
    if edit.kind == "operator" and text[start:end].startswith(b"!"):
        other = f"!({text[start:end].decode()})"  # one bit wide, as the design's expression
    return Place(mutant=mutant, skips=edit.kind == "reset", start=start, end=end, text=other)


def _render(text: bytes, span: tuple[int, int], inside: Sequence[tuple[int, Place]]) -> bytes:
    """Return the text of ``span`` with the switches of the places inside it."""
    at, made = span[0], b""
    left = sorted(inside, key=lambda each: (each[1].start, -each[1].end))
    while left:
        number, place = left.pop(0)
        nested = [each for each in left if each[1].end <= place.end]
        left = left[len(nested) :]
        kept = _render(text, (place.start, place.end), nested)
        made += text[at : place.start] + _switch(number, place, kept)
        at = place.end
    return made + text[at : span[1]]


def _switch(number: int, place: Place, kept: bytes) -> bytes:
    condition = f"{PACKAGE}::active == {number}"
    if place.skips:
        return b"begin if (!(%s)) %s end" % (condition.encode(), kept)
    return b"(%s ? (%s) : (%s))" % (condition.encode(), place.text.encode(), kept)
