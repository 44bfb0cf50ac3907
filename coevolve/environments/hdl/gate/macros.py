"""Expands a testbench's macros, token by token and within limits, in all branches of conditions.

It follows the standard's preprocessor, except that it refuses whatever could build a name from
pieces: pasting, a macro right after a name, a name right after a macro's arguments, an argument
named like a system task. So a simulator's own preprocessor cannot produce names other than these.
Because every branch of an ``ifdef`` is kept, a macro needs one body: a second definition is refused
unless both are plain values.

The limit counts every token that the expansion reads, because a macro that expands to no token
takes time as well.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from coevolve.environments.hdl.gate.rules import (
    CLOSING,
    CONDITIONS,
    DIRECTIVES,
    MOST_TOKENS,
    OPENING,
    RESERVED,
)
from coevolve.environments.hdl.gate.tokens import Word

MOST_NESTED = 50
"""Maximum nesting of macros in macros and in their arguments."""

_WHOLE_LINE = frozenset({"timescale", "default_nettype", "unconnected_drive"})


class RefusedError(Exception):
    """Macros that cannot be expanded, with the offending word and the reason."""

    def __init__(self, word: Word, reason: str) -> None:
        super().__init__(reason)
        self.word = word
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class Macro:
    """One macro definition."""

    formals: tuple[str, ...] | None
    """Names of the arguments; None for a macro without brackets."""

    defaults: tuple[tuple[Word, ...], ...]
    body: tuple[Word, ...]

    def same(self, other: "Macro") -> bool:
        """Return whether the two definitions are interchangeable."""
        mine, theirs = [each.name for each in self.body], [each.name for each in other.body]
        if mine == theirs and self.formals == other.formals:
            return True
        return self._plain() and other._plain()

    def _plain(self) -> bool:
        values = all(each.kind in ("string", "other") and each.name != "." for each in self.body)
        return values and self.formals is None


@dataclass(frozen=True, kw_only=True)
class Source:
    """A text without its directives, and the macros that they define."""

    macros: Mapping[str, Macro]
    words: tuple[Word, ...]
    """The tokens, in which uses of macros are not expanded yet."""


def separate(words: Sequence[Word], known: Mapping[str, Macro]) -> Source:
    """Return a text without its directives, after ``known`` macros. Raises RefusedError."""
    macros = dict(known)
    left: list[Word] = []
    at = 0
    while at < len(words):
        word = words[at]
        end = at + 1
        if word.kind != "directive" or word.name not in DIRECTIVES:
            left.append(word)
        elif word.name == "define":
            end = _line_end(words, at)
            _define(macros, words[at:end])
        elif word.name in CONDITIONS or word.name == "undef":
            end = at + 2
        elif word.name in _WHOLE_LINE:
            end = _line_end(words, at)
        at = end
    return Source(macros=macros, words=tuple(left))


def _line_end(words: Sequence[Word], at: int) -> int:
    end = at + 1
    while end < len(words):
        if words[end].begins_line and words[end - 1].kind != "continuation":
            break
        end += 1
    return end


def _define(macros: dict[str, Macro], line: Sequence[Word]) -> None:
    line = [each for each in line if each.kind != "continuation"]
    if len(line) < 2 or line[1].kind != "word":
        raise RefusedError(line[0], "`define needs a name")
    name = line[1]
    if name.name.startswith(RESERVED) or name.name in DIRECTIVES:
        raise RefusedError(name, f"a macro may not be called {name.name}")
    for each in line[1:]:
        if each.after_comment and each.touches:
            raise RefusedError(each, "put a blank beside a comment in a macro")
    macro = _macro(line)
    if name.name in macros and not macro.same(macros[name.name]):
        raise RefusedError(name, f"`{name.name} is defined twice, with different bodies")
    macros[name.name] = macro


def _macro(line: Sequence[Word]) -> Macro:
    formals: tuple[str, ...] | None = None
    defaults: tuple[tuple[Word, ...], ...] = ()
    start = 2
    if len(line) > 2 and line[2].name == "(" and line[2].touches:
        given, start = _arguments(line, 2, line[1])
        given = [each for each in given if each]
        formals = tuple(each[0].name for each in given)
        defaults = tuple(tuple(each[2:]) for each in given)
    body = tuple(line[start:])
    names = frozenset(("", *(formals or ())))
    for each in body:
        _check_body(each, names)
    return Macro(formals=formals, defaults=defaults, body=body)


def _check_body(word: Word, names: frozenset[str]) -> None:
    if word.kind == "task" and word.name.removeprefix("$") in names:
        raise RefusedError(word, f"{word.name} in a macro may not be made of an argument")
    if word.kind == "directive" and (word.name in DIRECTIVES or word.name in names):
        raise RefusedError(word, f"`{word.name} may not be used in a macro")


def _arguments(words: Sequence[Word], at: int, macro: Word) -> tuple[list[list[Word]], int]:
    """Return the arguments in the brackets that open at ``at``, and the index after them."""
    found: list[list[Word]] = [[]]
    depth = 0
    for index in range(at, len(words)):
        word = words[index]
        if word.name in OPENING:
            depth += 1
        elif word.name in CLOSING:
            depth -= 1
        if depth == 0:
            return found, index + 1
        if depth == 1 and word.name == ",":
            found.append([])
        elif index > at:
            found[-1].append(word)
    raise RefusedError(macro, f"{macro.name} lacks a closing bracket")


@dataclass(kw_only=True)
class Expansion:
    """The macros of a text, and the number of tokens that the expansion may still read or produce.

    A use of any other macro, such as one that every simulator has, expands to nothing.
    """

    macros: Mapping[str, Macro]
    left: int = MOST_TOKENS
    _active: list[str] = field(default_factory=list[str])
    _depth: int = 0

    def of(
        self, words: Sequence[Word], bound: Mapping[str, Sequence[Word]] | None = None
    ) -> list[Word]:
        """Return the words, expanded, with a macro's arguments ``bound``. Raises RefusedError."""
        made: list[Word] = []
        at = 0
        self._depth += 1
        while at < len(words):
            word = words[at]
            at += 1
            if word.kind == "directive":
                added, at = self._use(words, at, bound)
            elif bound and word.kind == "word" and word.name in bound:
                added = bound[word.name]
            else:
                added = (word,)
            self._spend(max(1, len(added)), word)
            made += added
        self._depth -= 1
        return made

    def _spend(self, tokens: int, word: Word) -> None:
        self.left -= tokens
        if self.left < 0:
            raise RefusedError(word, f"macros expand to more than {MOST_TOKENS} tokens")

    def _use(
        self, words: Sequence[Word], at: int, bound: Mapping[str, Sequence[Word]] | None
    ) -> tuple[Sequence[Word], int]:
        word = words[at - 1]
        macro = self.macros.get(word.name)
        if macro is None:
            return (), at
        if word.name in self._active or self._depth > MOST_NESTED:
            raise RefusedError(word, f"`{word.name} refers to itself, or is nested too deep")
        arguments: Mapping[str, Sequence[Word]] | None = None
        if macro.formals is not None:
            arguments, at = self._bind(words, at, macro, bound)
        self._active.append(word.name)
        expanded = self.of(macro.body, arguments)
        self._active.pop()
        return expanded, at

    def _bind(
        self,
        words: Sequence[Word],
        at: int,
        macro: Macro,
        bound: Mapping[str, Sequence[Word]] | None,
    ) -> tuple[Mapping[str, Sequence[Word]], int]:
        word = words[at - 1]
        if at >= len(words) or words[at].name != "(":
            raise RefusedError(word, f"`{word.name} needs its arguments in brackets")
        given, end = _arguments(words, at, word)
        if end < len(words) and words[end].touches and words[end].goes_on():
            raise RefusedError(words[end], f"put a blank after the brackets of `{word.name}")
        formals = macro.formals or ()
        self._spend(len(formals) + end - at, word)
        filled = [each or default for each, default in _with_defaults(given, macro.defaults)]
        return {name: self.of(each, bound) for name, each in zip(formals, filled, strict=True)}, end


def _with_defaults(
    given: Sequence[Sequence[Word]], defaults: Sequence[Sequence[Word]]
) -> Iterable[tuple[Sequence[Word], Sequence[Word]]]:
    for index, default in enumerate(defaults):
        yield (given[index] if index < len(given) else ()), default
