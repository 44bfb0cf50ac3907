"""Variants of a design: the same with other secret constants in all that is told of it.

A policy that learnt a design's secret by heart has to read it again. What is replaced are constants
that the sentence on the design's secret names in hexadecimal and that its RTL and specification
hold so, too (``16'hC0DE``, ``0xC0DE``); a new one is as long in every place, so that lines and
columns stay, and is none that the RTL has already. Constants that stand in decimal or in binary
somewhere are left as they are there: such a variant does not hold together, and admission by
execution refuses it.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.evolution.messages import Replaced

LEAST = 16
"""Constants below are too common to be a secret, and too easily found."""

MOST = (1 << 64) - 1
"""Constants above fit into no record."""

_HEX = re.compile(
    r"(?P<head>(?:\b\d+)?'[sS]?[hH]|(?<![\w'])0[xX])(?P<digits>[0-9a-fA-F][0-9a-fA-F_]*)"
)


def secrets(design: Design) -> dict[int, int]:
    """Return the constants that may be replaced, and of each the fewest digits it is written in."""
    rtl = _written("\n".join(file.text for file in design.unit.files))
    told = _written(design.specification)
    return {
        value: min(rtl[value], told[value])
        for value in _written(design.file.secret)
        if LEAST <= value <= MOST and value in rtl and value in told
    }


def other_constants(design: Design, generator: random.Random) -> tuple[Replaced, ...]:
    """Return new constants for all secret ones of the design, drawn anew; empty without any."""
    taken = set(_written("\n".join(file.text for file in design.unit.files)))
    made: list[Replaced] = []
    for old, digits in secrets(design).items():
        first, end = _alike(old, digits)
        if sum(first <= value < end for value in taken) == end - first:
            continue
        new = old
        while new in taken:
            new = generator.randrange(first, end)
        taken.add(new)
        made.append(Replaced(old=old, new=new))
    return tuple(made)


def varied(design: Design, constants: Sequence[Replaced], design_id: str) -> Design:
    """Return the design under another id and with other constants; without mutants.

    Its set of points is not frozen.
    """
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
    """Return the text with other constants, each in as many digits as before."""

    def other(found: re.Match[str]) -> str:
        digits = found["digits"]
        value = int(digits.replace("_", ""), 16)
        return found["head"] + _digits(new[value], digits) if value in new else found[0]

    return _HEX.sub(other, text)


def _digits(value: int, like: str) -> str:
    """Return the value in the places that ``like`` has digits in."""
    wanted = f"{value:0{len(like) - like.count('_')}X}"
    if like.upper() != like:
        wanted = wanted.lower()
    digits: Iterator[str] = iter(wanted)
    return "".join("_" if each == "_" else next(digits) for each in like)


def _alike(value: int, digits: int) -> tuple[int, int]:
    """Return the first value of as many bits, no longer than so many digits, and their end."""
    bits = min(value.bit_length(), 4 * digits)
    return max(LEAST, 1 << (bits - 1)), 1 << bits


def _written(text: str) -> dict[int, int]:
    """Return the hexadecimal constants of a text, and of each the fewest digits."""
    found: dict[int, int] = {}
    for match in _HEX.finditer(text):
        digits = match["digits"].replace("_", "")
        value = int(digits, 16)
        found[value] = min(len(digits), found.get(value, len(digits)))
    return found
