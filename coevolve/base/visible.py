r"""Foreign text as a person may safely see it: characters that act or that hide become escapes.

Tasks, models, endpoints and files hold text that nobody has read. A terminal obeys some of its
characters (escape sequences set titles, move the cursor, write to the clipboard), and others change
what a reader sees (bidirectional controls, invisible characters). `visible` replaces each of them
by the escape that JSON and Python have for it, such as ``\u001b``. So a JSON document keeps its
meaning.

All that a command writes goes through `VisibleStream`, and all that Rich draws through
`coevolve.base.terminal.Terminal`. Logs, report and the cards of exports use this module as well.

*What is not covered.* Letters that look like others, such as Cyrillic ones; combining marks in any
number; lines, because foreign text may hold line ends. Some scripts and emoji need joiners, which
are shown as escapes.
"""

import contextlib
import io
import re
import sys
from collections.abc import Generator, Iterable
from typing import Any, TextIO, cast

_ACTING = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
"""Control characters of ASCII and Latin-1, but the tabulator and the end of a line."""

_IGNORABLE = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Unicode's property Default_Ignorable_Code_Point, which holds all bidirectional controls."""

_SEPARATING = r"\u2028\u2029\ufff9-\ufffb"
"""Ends of lines and paragraphs, and marks of annotations."""

_INVALID = r"\ud800-\udfff\ufffe\uffff"

UNSAFE = re.compile(f"[{_ACTING}{_IGNORABLE}{_SEPARATING}{_INVALID}]")
"""A character that `visible` replaces."""


def visible(text: str) -> str:
    r"""Return ``text`` with ``\uXXXX`` (two of them above U+FFFF) for each `UNSAFE` character."""
    return UNSAFE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


class _Buffer:
    """The binary end of a `VisibleStream`, which takes UTF-8."""

    def __init__(self, stream: "VisibleStream") -> None:
        self._stream = stream
        self.flush = stream.stream.flush

    def write(self, text: bytes) -> int:
        """Write the text; return its length in bytes."""
        self._stream.write(text.decode(errors="replace"))
        return len(text)


class VisibleStream:
    """A text stream that writes what `visible` returns."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        """The stream behind it, which takes everything."""

        self.buffer = _Buffer(self)

    def write(self, text: str) -> int:
        self.stream.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each text."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def as_visible(stream: TextIO) -> TextIO:
    """Return a stream that writes visible text to ``stream``; that stream itself if it does."""
    return stream if is_visible(stream) else cast("TextIO", VisibleStream(stream))


def is_visible(stream: object) -> bool:
    return isinstance(stream, VisibleStream)


@contextlib.contextmanager
def visible_output() -> Generator[None]:
    """Make everything visible that Python code writes to standard output and error in the block.

    Characters that the terminal's encoding does not have become escapes, too.
    """
    before = sys.stdout, sys.stderr
    for stream in before:
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = map(as_visible, before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
