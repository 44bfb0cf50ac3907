"""Makes variants of a design: the same design with other secret constants.

In a variant a policy cannot use a memorized secret; it has to read the specification again. A
constant is replaced if the sentence on the design's secret, the RTL and the specification all
contain it in hexadecimal (``16'hC0DE``, ``0xC0DE``). The new constant has the same length
everywhere, so lines and columns stay, and does not occur in the RTL yet. Decimal and binary
spellings are not replaced: such a variant is inconsistent, and admission by simulation refuses it.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from coevolve.environments.hdl.designs.design import Design


class Replaced(msgspec.Struct, frozen=True, kw_only=True):
    """One constant of a design and its replacement."""

    old: int
    new: int


LEAST = 16
"""Minimum value of a secret; smaller constants are too common and too easy to find."""

MOST = (1 << 64) - 1
"""Maximum value of a secret; journal records hold integers of at most 64 bits."""

_HEX = re.compile(
    r"(?P<head>(?:\b\d+)?'[sS]?[hH]|(?<![\w'])0[xX])(?P<digits>[0-9a-fA-F][0-9a-fA-F_]*)"
)


def secrets(design: Design) -> dict[int, int]:
    """Return the replaceable constants, each with the fewest digits that it is written in."""
    rtl = _hex_constants("\n".join(file.text for file in design.unit.files))
    specified = _hex_constants(design.specification)
    return {
        value: min(rtl[value], specified[value])
        for value in _hex_constants(design.file.secret)
        if LEAST <= value <= MOST and value in rtl and value in specified
    }


def other_constants(design: Design, generator: random.Random) -> tuple[Replaced, ...]:
    """Return random new constants for all secret ones of the design; empty if it has none."""
    taken = set(_hex_constants("\n".join(file.text for file in design.unit.files)))
    made: list[Replaced] = []
    for old, digits in secrets(design).items():
        first, end = _new_range(old, digits)
        if sum(first <= value < end for value in taken) == end - first:
            continue
        new = old
        while new in taken:
            new = generator.randrange(first, end)
        taken.add(new)
        made.append(Replaced(old=old, new=new))
    return tuple(made)


def varied(design: Design, constants: Sequence[Replaced], design_id: str) -> Design:
    """Return the design with another id and other constants, without mutants and frozen points."""
    new = {each.old: each.new for each in constants}
    file = msgspec.structs.replace(
        design.file,
        secret=replaced(design.file.secret, new),
        literals=tuple(new.get(literal, literal) for literal in design.file.literals),
        points=None,
    )
    sources = tuple(
        msgspec.structs.replace(source, text=replaced(source.text, new))
        for source in design.unit.files
    )
    return msgspec.structs.replace(
        design,
        design_id=design_id,
        file=file,
        unit=msgspec.structs.replace(design.unit, name=design_id, files=sources, points_sha256=""),
        specification=replaced(design.specification, new),
        testbenches={quality: replaced(text, new) for quality, text in design.testbenches.items()},
        mutants=(),
    )


def replaced(text: str, new: Mapping[int, int]) -> str:
    """Return the text with other constants; each keeps its number of digits."""

    def other(found: re.Match[str]) -> str:
        digits = found["digits"]
        value = int(digits.replace("_", ""), 16)
        return found["head"] + _digits(new[value], digits) if value in new else found[0]

    return _HEX.sub(other, text)


def _digits(value: int, like: str) -> str:
    """Return the value in the format of ``like``: its digits, underscores and case."""
    wanted = f"{value:0{len(like) - like.count('_')}X}"
    if like.upper() != like:
        wanted = wanted.lower()
    digits: Iterator[str] = iter(wanted)
    return "".join("_" if each == "_" else next(digits) for each in like)


def _new_range(value: int, digits: int) -> tuple[int, int]:
    """Return the range of values with as many bits as ``value``, and at most ``digits`` digits."""
    bits = min(value.bit_length(), 4 * digits)
    return max(LEAST, 1 << (bits - 1)), 1 << bits


def _hex_constants(text: str) -> dict[int, int]:
    """Return the hexadecimal constants of a text, each with the fewest digits."""
    found: dict[int, int] = {}
    for match in _HEX.finditer(text):
        digits = match["digits"].replace("_", "")
        value = int(digits, 16)
        found[value] = min(len(digits), found.get(value, len(digits)))
    return found
