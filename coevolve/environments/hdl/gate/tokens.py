"""Splits a testbench into pyslang's tokens, before macro expansion."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pyslang import BumpAllocator, Diagnostics, SourceManager
from pyslang.parsing import Lexer, LexerOptions, Token, TokenKind, TriviaKind

Kind = Literal["word", "task", "directive", "string", "quote", "paste", "continuation", "other"]
"""``word``: identifier or keyword. ``task``: ``$name``, or the sign alone. ``directive``: a name
after a backquote, including a macro's. ``quote``: a macro's quote. ``paste``: two backquotes.
``continuation``: a backslash at the end of a line. ``other``: numbers and operators."""

_KINDS: dict[TokenKind, Kind] = {
    TokenKind.Identifier: "word",
    TokenKind.SystemIdentifier: "task",
    TokenKind.RootSystemName: "task",
    TokenKind.Dollar: "task",
    TokenKind.Directive: "directive",
    TokenKind.MacroUsage: "directive",
    TokenKind.StringLiteral: "string",
    TokenKind.MacroQuote: "quote",
    TokenKind.MacroTripleQuote: "quote",
    TokenKind.MacroEscapedQuote: "string",
    TokenKind.MacroPaste: "paste",
    TokenKind.LineContinuation: "continuation",
}

_COMMENTS = (TriviaKind.LineComment, TriviaKind.BlockComment)
_NEWLINE = ord("\n")
_ENDLESS = 2**31 - 1
"""Without it pyslang stops reading after a number of errors."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Word:
    """One token."""

    kind: Kind
    name: str
    """Its text; without the backslash of an escaped identifier or the backquote of a directive."""

    offset: int
    """Number of bytes before it."""

    keyword: bool
    begins_line: bool
    touches: bool
    """Whether at most comments separate it from the token before."""

    after_comment: bool

    def name_like(self) -> bool:
        """Return whether it could be the first part of a name."""
        return self.kind in ("word", "task", "directive")

    def goes_on(self) -> bool:
        """Return whether it could continue a name."""
        return self.name_like() or self.name[:1].isalnum()


@dataclass(frozen=True, kw_only=True, slots=True)
class Comment:
    """A comment before a token."""

    text: str
    offset: int


class Positions:
    """Converts offsets of a text to lines and columns, both from 1; columns count bytes."""

    def __init__(self, text: bytes) -> None:
        self._starts = [0, *(index + 1 for index, byte in enumerate(text) if byte == _NEWLINE)]

    def of(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


def read(text: str) -> tuple[list[Word], list[Comment]]:
    """Return the tokens and the comments of any text; neither can hide in the other."""
    sources = SourceManager()
    options = LexerOptions()
    options.maxErrors = _ENDLESS
    buffer = sources.assignText("tb.sv", text)
    lexer = Lexer(buffer, BumpAllocator(), Diagnostics(), sources, options)
    words: list[Word] = []
    comments: list[Comment] = []
    while True:
        token = lexer.lex()
        offset = token.location.offset
        before = [(each.kind, each.getRawText()) for each in token.trivia]
        comments += _comments(before, offset)
        if token.kind == TokenKind.EndOfFile:
            return words, comments
        words.append(_word(token, offset, before))


def _word(token: Token, offset: int, before: list[tuple[TriviaKind, str]]) -> Word:
    raw = token.rawText
    kind = _KINDS.get(token.kind, "other")
    keyword = kind == "other" and (raw[:1].isalpha() or raw[:1] == "_")
    return Word(
        kind="word" if keyword else kind,
        name=_name(kind, raw),
        offset=offset,
        keyword=keyword,
        begins_line=any(each == TriviaKind.EndOfLine for each, _ in before),
        touches=all(each == TriviaKind.BlockComment for each, _ in before),
        after_comment=any(each == TriviaKind.BlockComment for each, _ in before),
    )


def _name(kind: Kind, raw: str) -> str:
    match kind:
        case "directive":
            return raw[1:]
        case "word":
            return raw.removeprefix("\\")
        case _:
            return raw


def _comments(before: list[tuple[TriviaKind, str]], offset: int) -> Iterator[Comment]:
    for kind, text in reversed(before):
        offset -= len(text.encode())
        if kind in _COMMENTS:
            yield Comment(text=text, offset=offset)
