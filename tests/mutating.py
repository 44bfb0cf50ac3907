"""Makes foreign input out of real input: seeded changes of bytes, of tokens and of structure.

A change of bytes knows nothing of the format. A change of tokens moves, repeats and replaces words
and signs, also by words that parsers stumble over. A change of structure decodes a text, changes a
value, a key or the nesting, and encodes it again.
"""

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import yaml

BYTES = (
    *(b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\xaf", b"\x85"),
    *(b"\x1b[2J", b"\xe2\x80\xae", b"\xe2\x80\xa8", b"\r", b"\n\n", b"\t", b"\x0c", b"\xf4\x90"),
)
"""What editors, terminals and other encodings leave in a file."""

WORDS = (
    *("0", "-1", "9" * 30, "9" * 5000, "0x" + "f" * 5000, "1e999", "-.inf", ".nan", "NaN", "1_0"),
    *("null", "None", "~", "true", "yes", "''", '""', "'", '"', "`", "\\", "\\ud800", "\\0"),
    *("[", "]", "{", "}", "(", ")", "," * 50, ":", ": ", "- ", "? ", "# ", "&a ", "*a", "<<: *a"),
    *("!!int ", "!!binary ", "!!set ", "!!python/object:os.system ", "!x ", "!<", "%YAML 9.9\n"),
    *("---\n", "...\n", "|\n", ">\n", "@", "%", "=", "\ufeff", "\u202e", "\ud800", "2024-13-45"),
    *("2001-12-14t21:59:43.10-99:99", "1:30:99.5", "lambda: 0", "**{}", "*a", "f'{x}'", "1j"),
    *("__import__('os')", "a.b.c", "x:=1", "await x", '`include "x"', "`define A `A\n", "$x"),
    *("/*", "*/", "//", "\\\n", "@@ -1,3 +1,4 @@", "@@ -" + "9" * 5000, "@@", "-", "+", "+++"),
    *("<tool_call>", "</tool_call>", "<think>", "</think>", "```", "```python\n", "<|im_end|>"),
    *("http://u:pw@h/v1", "../../etc/passwd", "a" * 3000, "é" * 300, " " * 3000, "\n" * 3000),
)
"""Words and signs that mean something to one of the parsers."""

VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**63, 10**30, 1e308, float("inf"), float("nan"), "", "\x00", "\x1b[2J"),
    *("\u202e", "a" * 2000, [], {}, [[]], {"": {}}, [None] * 200, {"kind": "x"}, {"a": {"b": {}}}),
    *("http://user:secret@host/v1", "0x10", "1/0", "1" * 100 + "!", "!!int x", "~", "=", "<<"),
)

MOST_BYTES = 32 << 20
"""Inputs end here; some changes made 120 MB."""

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


class Mutator:
    """Makes one mutation after the other out of some real inputs."""

    def __init__(
        self, real: Sequence[bytes], bad: Sequence[bytes], seed: int, *, structure: str = ""
    ) -> None:
        """Change inputs, most of them ``real``; ``structure`` is ``yaml``, ``json`` or empty."""
        self._real = real
        self._bad = bad
        self._rng = random.Random(seed)
        self._structure = {"yaml": _changed_yaml, "json": _changed_json}.get(structure)

    def next(self) -> bytes:
        """Return one of the inputs, changed once or a few times."""
        rng = self._rng
        if self._bad and rng.random() < 0.15:
            return self._rewritten(rng.choice(self._bad), rng.randint(1, 3))
        content = rng.choice(self._real)
        if self._structure and rng.random() < 0.5:
            return self._rewritten(self._structure(content, rng), rng.choice((0, 0, 1, 2)))
        return self._rewritten(content, rng.choice((1, 1, 2, 3, 8)))

    def _rewritten(self, content: bytes, times: int) -> bytes:
        for _ in range(times):
            content = self._rng.choice(_CHANGES)(content, self._real, self._rng)
        return content[:MOST_BYTES]


def _flipped(content: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    if not content:
        return content
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]


def _inserted(content: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    at = rng.randint(0, len(content))
    return content[:at] + rng.choice((*BYTES, rng.randbytes(rng.randint(1, 9)))) + content[at:]


def _cut(content: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    begin, end = sorted((rng.randint(0, len(content)), rng.randint(0, len(content))))
    return rng.choice((content[:begin], content[end:], content[:begin] + content[end:]))


def _repeated(content: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    begin = rng.randint(0, len(content))
    part = content[begin : begin + rng.choice((1, 2, 8, 40))]
    return content[:begin] + part * rng.choice((2, 10, 300)) + content[begin:]


def _spliced(content: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    other = rng.choice(seeds)
    return content[: rng.randint(0, len(content))] + other[rng.randint(0, len(other)) :]


def _encoded(content: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    if rng.random() < 0.8:
        return content
    text = content.decode(errors="replace")
    return text.encode(rng.choice(("utf-16", "utf-32", "utf-8-sig", "utf-7")), "replace")


def _reworded(content: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    """Replace, insert, move or repeat a token."""
    tokens = _TOKEN.findall(content.decode(errors="surrogateescape"))
    if not tokens:
        return content
    at, to = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    match rng.randrange(5):
        case 0:
            tokens[at] = rng.choice(WORDS)
        case 1:
            tokens.insert(at, rng.choice(WORDS))
        case 2:
            tokens[at], tokens[to] = tokens[to], tokens[at]
        case 3:
            tokens[at] *= rng.choice((2, 50, 2000))
        case _:
            del tokens[at : at + rng.randint(1, 4)]
    return "".join(tokens).encode(errors="surrogatepass")


def _nested(content: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    """Put a part of the content into many brackets."""
    begin, end = sorted((rng.randint(0, len(content)), rng.randint(0, len(content))))
    opening, closing = rng.choice(((b"[", b"]"), (b"{a: ", b"}"), (b'{"a":', b"}"), (b"f(", b")")))
    many = rng.choice((3, 30, 300, 3000))
    inner = content[begin:end]
    return content[:begin] + opening * many + inner + closing * many + content[end:]


_Change = Callable[[bytes, Sequence[bytes], random.Random], bytes]
_CHANGES: tuple[_Change, ...] = (
    *(_flipped, _inserted, _cut, _repeated, _spliced, _encoded),
    *(_reworded, _reworded, _reworded, _nested),
)


def _changed_yaml(content: bytes, rng: random.Random) -> bytes:
    tree = _changed(yaml.safe_load(content), rng)
    return yaml.safe_dump(tree, sort_keys=False).encode(errors="surrogatepass")


def _changed_json(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines() or [b""]
    at = rng.randrange(len(lines))
    try:
        lines[at] = json.dumps(_changed(json.loads(lines[at]), rng)).encode()
    except (ValueError, RecursionError):
        try:
            return json.dumps(_changed(json.loads(content), rng)).encode()
        except (ValueError, RecursionError):
            return content
    return b"\n".join(lines)


def _changed(tree: Any, rng: random.Random) -> Any:
    """Return a tree with a change at a random place."""
    inner: list[Any] = []
    if isinstance(tree, dict):
        inner = list(tree)
    elif isinstance(tree, list):
        inner = list(range(len(tree)))
    if not inner or rng.random() < 0.15:
        return rng.choice((rng.choice(VALUES), [tree], {"kind": tree}, [tree] * 20))
    key = rng.choice(inner)
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    if isinstance(copy, dict) and rng.random() < 0.25:
        value = copy.pop(key)
        if rng.random() < 0.7:
            copy[rng.choice((f"{key}s", f"{key}"[:-1], "kind", "", "a" * 500, 1, None))] = value
        return copy
    copy[key] = _changed(copy[key], rng)
    return copy
