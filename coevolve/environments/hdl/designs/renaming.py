"""Makes instances of a design: the same hardware with other names and other secret constants.

All ports but clock and reset get names that mean nothing, and secrets that `varied` can replace
get other values. RTL, specification and reference testbenches say both alike, and the new
texts are as long as the old ones, so lines, columns and the number of points stay. In prose a port
is renamed where it stands between backquotes or has an underscore: ``push`` may be a word.

The id of an instance names design and seed, and determines the instance.
"""

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.gate.tokens import read
from protocols.tasks import instance_of

_CONSONANTS = "bdfgklmnprstvz"
_VOWELS = "aeiou"
_DRAWS = 1000
"""Draws of one name; there are only 14 names of one letter."""

_NAME = re.compile(r"[A-Za-z_]\w*")
_CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)


def instance_id(design_id: str, seed: int) -> str:
    """Return the id of an instance of a design."""
    return f"{design_id}~{seed}"


def root_of(design_id: str) -> tuple[str, int] | None:
    """Return the design and the seed of an instance's id; None for other ids."""
    _, mark, seed = design_id.rpartition("~")
    return instance_of(design_id) if mark and seed.isdecimal() else None


def instance(design: Design, seed: int) -> Design:
    """Return the instance of a design, without mutants and frozen points."""
    generator = random.Random(f"{design.design_id}/{seed}")  # noqa: S311
    made = varied(design, other_constants(design, generator), instance_id(design.design_id, seed))
    return _with_names(made, new_names(design, generator))


def new_names(design: Design, generator: random.Random) -> dict[str, str]:
    """Return an unused name for each port but clock and reset, if there is one."""
    kept = {design.file.clock, design.file.reset.port if design.file.reset else ""}
    texts = [*(source.text for source in design.unit.files), *design.testbenches.values()]
    taken = {name for text in (*texts, design.specification) for name in _NAME.findall(text)}
    names: dict[str, str] = {}
    for port in design.ports:
        if port.name not in kept and (name := _unused(port.name, taken, generator)):
            names[port.name] = name
            taken.add(name)
    return names


def _unused(like: str, taken: set[str], generator: random.Random) -> str:
    """Return a name of the form of ``like``; empty if all draws are taken or keywords."""
    for _ in range(_DRAWS):
        name = "_".join(_part(part, generator) for part in like.split("_"))
        if name not in taken and not read(name)[0][0].keyword:
            return name
    return ""


def _part(part: str, generator: random.Random) -> str:
    """Return as many letters, from a consonant on; other characters stay."""
    letters = "".join(
        generator.choice(_VOWELS if place % 2 else _CONSONANTS) for place in range(len(part))
    )
    new = "".join(new if old.isalpha() else old for old, new in zip(part, letters, strict=True))
    return new.upper() if part.isupper() else new


def _with_names(design: Design, names: Mapping[str, str]) -> Design:
    def put(text: str) -> str:
        return _NAME.sub(lambda found: names.get(found[0], found[0]), text)

    def put_in_prose(text: str) -> str:
        return _in_prose(text, names, put)

    def put_in_source(text: str) -> str:
        return _in_source(text, names, put_in_prose)

    unit, file = design.unit, design.file
    sources = tuple(
        msgspec.structs.replace(source, text=put_in_source(source.text)) for source in unit.files
    )
    unreachable = tuple(map(put, unit.unreachable))
    return msgspec.structs.replace(
        design,
        file=msgspec.structs.replace(
            file, secret=put_in_prose(file.secret), unreachable=unreachable
        ),
        unit=msgspec.structs.replace(unit, files=sources, unreachable=unreachable),
        ports=tuple(
            msgspec.structs.replace(port, name=names.get(port.name, port.name))
            for port in design.ports
        ),
        specification=put_in_prose(design.specification),
        testbenches={each: put_in_source(text) for each, text in design.testbenches.items()},
    )


def _in_prose(text: str, names: Mapping[str, str], put: Callable[[str], str]) -> str:
    plain = {old: new for old, new in names.items() if "_" in old}
    parts: list[str] = []
    end = 0
    for code in _CODE.finditer(text):
        parts += [_named(text[end : code.start()], plain), put(code[0])]
        end = code.end()
    return "".join((*parts, _named(text[end:], plain)))


def _named(text: str, names: Mapping[str, str]) -> str:
    return _NAME.sub(lambda found: names.get(found[0], found[0]), text)


def _in_source(text: str, names: Mapping[str, str], in_comment: Callable[[str], str]) -> str:
    """Return SystemVerilog with other identifiers, also where its comments name them."""
    words, comments = read(text)
    written = text.encode()
    changes: Iterable[tuple[int, str, str]] = (
        *((each.offset, each.name, names[each.name]) for each in words if each.name in names),
        *((each.offset, each.text, in_comment(each.text)) for each in comments),
    )
    return b"".join(_changed(written, sorted(changes))).decode()


def _changed(text: bytes, changes: Iterable[tuple[int, str, str]]) -> Iterator[bytes]:
    """Yield the text's parts, with the new text at each offset in place of the old one."""
    end = 0
    for offset, old, new in changes:
        yield text[end:offset]
        yield new.encode()
        end = offset + len(old.encode())
    yield text[end:]


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
    """Return the design with another id and other constants, without mutants and frozen points.

    A policy cannot use a memorized secret in it; it has to read the specification again.
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
