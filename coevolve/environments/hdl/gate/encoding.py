"""Reads files of RTL and testbenches, whose comments and strings may be in any encoding of bytes.

Bytes that are not UTF-8 have no meaning to a compiler inside of a comment, and become replacement
characters there. In a string each becomes the escape of its value, so that the string stays the
same. Elsewhere such a byte is a fault.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Literal

from coevolve.environments.hdl.gate.tokens import read

UTF_8_MARK = b"\xef\xbb\xbf"
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
NOT_BYTES = "it needs to be UTF-8, found UTF-16 or no text; save it as UTF-8"
REPLACEMENT = "\ufffd"

_BAD = re.compile("[\udc80-\udcff]")
"""A byte that is not UTF-8, as Python's ``surrogateescape`` decodes it."""

_CUT = re.compile(rf"(?<={REPLACEMENT})\\")
"""A backslash after such a byte: the second byte of a character in GBK, Big5 or Shift-JIS, which
would continue a comment at the end of a line."""

Place = Literal["comment", "string"]
Span = tuple[int, int, Place]
"""First character, the one behind the last, and what is there."""


def rtl_text(data: bytes) -> str:
    """Return the text of a file of RTL.

    Raises ValueError, with a sentence, for UTF-16 and for bytes that are not UTF-8 outside of
    comments and strings.
    """
    text = _decoded(data, "surrogateescape")
    if not _BAD.search(text):
        return text
    pieces: list[str] = []
    done = 0
    for start, end, place in _spans(_BAD.sub(REPLACEMENT, text)):
        pieces += (_checked(text, done, start), _readable(text[start:end], place))
        done = end
    return "".join((*pieces, _checked(text, done, len(text))))


def bench_text(data: bytes) -> str:
    """Return the text of a testbench, with replacement characters for bytes that are not UTF-8.

    Raises ValueError, with a sentence, for UTF-16.
    """
    return _decoded(data, "replace")


def _decoded(data: bytes, errors: str) -> str:
    if data.startswith(UTF_16_MARKS) or b"\0" in data:
        raise ValueError(NOT_BYTES)
    return data.removeprefix(UTF_8_MARK).decode(errors=errors)


def _spans(text: str) -> Iterator[Span]:
    """Yield the comments and the strings of ``text``, in its order."""
    words, comments = read(text)
    starts = [0, *accumulate(len(each.encode()) for each in text)]
    found: list[tuple[int, str, Place]] = []
    found.extend((each.offset, each.text, "comment") for each in comments)
    found.extend((each.offset, each.name, "string") for each in words if each.kind == "string")
    for offset, inside, place in sorted(found):
        first = bisect_right(starts, offset) - 1
        yield first, first + len(inside), place


def _readable(text: str, place: Place) -> str:
    if place == "string":
        return _BAD.sub(lambda byte: f"\\x{_value(byte[0]):02x}", text)
    return _CUT.sub(REPLACEMENT, _BAD.sub(REPLACEMENT, text))


def _checked(text: str, start: int, end: int) -> str:
    """Return a part of the text. Raises ValueError if a byte of it is not UTF-8."""
    if bad := _BAD.search(text, start, end):
        line = text.count("\n", 0, bad.start()) + 1
        column = bad.start() - text.rfind("\n", 0, bad.start())
        raise ValueError(
            f"line {line}, column {column}: outside of comments and strings it needs to be UTF-8, "
            f"found the byte 0x{_value(bad[0]):02x}; save it as UTF-8"
        )
    return text[start:end]


def _value(bad: str) -> int:
    return ord(bad) - 0xDC00
