"""Finds declarations outside of every module of a text.

If the design imports package names outside of its modules, a declaration of the same name there in
the testbench hides them: it could replace the design's constants and functions. Beside such a
design, a testbench may have only modules, interfaces, programs and packages at that level. A text
in which one of them has no end is refused.
"""

from collections.abc import Iterator, Sequence

from coevolve.environments.hdl.gate.rules import CLOSING, OPENING
from coevolve.environments.hdl.gate.tokens import Word

UNITS = frozenset({"module", "macromodule", "interface", "program", "package"})
ENDS = frozenset({"endmodule", "endinterface", "endprogram", "endpackage"})
_NO_UNIT_AFTER = frozenset({"virtual", "extern"})
_OF_UNITS = frozenset({";", ":", "automatic", "static"})


def imports_outside(words: Sequence[Word]) -> bool:
    """Return whether a design imports from packages outside of its modules."""
    return any(word.keyword and word.name == "import" for word in _outside(words))


def declared_outside(words: Sequence[Word]) -> Iterator[tuple[int, str]]:
    """Yield the offset and the message of each word that may not be outside of modules."""
    for word in _outside(words):
        yield (
            word.offset,
            f"{word.name!r} outside of every module; the design imports names there, so declare "
            "inside of a module",
        )


def _outside(words: Sequence[Word]) -> Iterator[Word]:
    """Yield the words outside of design units, and the last one if a unit does not end."""
    depth = brackets = 0
    for at, word in enumerate(words):
        brackets += (word.name in OPENING) - (word.name in CLOSING)
        before = words[at - 1].name if at else ""
        if word.keyword and word.name in ENDS and depth:
            depth -= 1
        elif brackets == 0 and _begins_unit(words, at, before):
            depth += 1
        elif depth == 0 and not (word.name in _OF_UNITS or before == ":"):
            yield word
    if depth:
        yield words[-1]


def _begins_unit(words: Sequence[Word], at: int, before: str) -> bool:
    word = words[at]
    after = words[at + 1].name if at + 1 < len(words) else ""
    return (
        word.keyword
        and word.name in UNITS
        and before not in _NO_UNIT_AFTER
        and after not in ("class", "")
    )
