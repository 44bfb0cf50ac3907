"""Measures how similar two texts are, by ROUGE-L, to find copies among designs.

Source: ROUGE-L (Lin 2004) over tokens between whitespace, F1, as LLM4Cov (arXiv 2602.16953) uses it
to separate its training and evaluation designs. The longest common subsequence is computed with one
machine word for 64 cells (Hyyrö 2004, on Python's own integers). Texts whose token counts rule out
similarity are skipped.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from coevolve.environments.hdl.designs.design import Design

ALIKE_FROM = 0.5
"""Minimum ROUGE-L F1 of two files that count as copies of one another."""


class Alike(NamedTuple):
    """Two files that are too similar."""

    file: str
    """``design/file`` of the first."""

    other: str
    f1: float


class Text(NamedTuple):
    """A file with its tokens and their counts."""

    name: str
    tokens: tuple[str, ...]
    counts: Counter[str]


def common_tokens(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the longest common subsequence."""
    where: dict[str, int] = {}
    for position, token in enumerate(one):
        where[token] = where.get(token, 0) | 1 << position
    # Hyyrö: bit i of `row` is 0 where the subsequence grows by the token at i of `one`.
    full = (1 << len(one)) - 1
    row = full
    for token in other:
        both = row & where.get(token, 0)
        row = ((row + both) | (row - both)) & full
    return len(one) - row.bit_count()


def texts(design: Design) -> tuple[Text, ...]:
    """Return the RTL, the specification and the testbenches of a design.

    ``design.yaml`` and ``mutants.yaml`` are left out: they use the words of their schema, and no
    agent sees them.
    """
    files = {file.name: file.text for file in design.unit.files}
    files["spec.md"] = design.specification
    files |= {f"testbenches/{quality}.sv": text for quality, text in design.testbenches.items()}
    return tuple(_text(f"{design.design_id}/{name}", text) for name, text in files.items())


def copies(designs: Iterable[Design], others: Iterable[Design]) -> Iterator[Alike]:
    """Yield the pairs of a file of ``designs`` and a file of ``others`` that are copies."""
    against = [text for design in others for text in texts(design)]
    for one in (text for design in designs for text in texts(design)):
        for other in against:
            sizes = len(one.tokens), len(other.tokens)
            shared = sum((one.counts & other.counts).values())
            if _f1(shared, *sizes) < ALIKE_FROM:
                continue
            f1 = _f1(common_tokens(one.tokens, other.tokens), *sizes)
            if f1 >= ALIKE_FROM:
                yield Alike(one.name, other.name, f1)


def _text(name: str, text: str) -> Text:
    tokens = tuple(text.split())
    return Text(name, tokens, Counter(tokens))


def _f1(common: int, one: int, other: int) -> float:
    """Return F1 from the length of a common subsequence, 0..1; 0 if either text is empty."""
    return 2 * common / (one + other) if one and other else 0.0
