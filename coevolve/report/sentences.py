"""Pieces of the sentences that the report's findings consist of."""

from collections.abc import Mapping

from coevolve.report.markup import Markup, joined

NAMED = 4
"""Maximum number of skills, tasks or signals that a sentence names."""


def sentence(*parts: str) -> Markup:
    """Return the parts as one sentence, or some."""
    return joined(parts)


def counted(count: int, noun: str) -> str:
    """Return ``1 task`` or ``3 tasks``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def more(count: int) -> str:
    """Return the end of a sentence that names `NAMED` of ``count`` things at most."""
    return f" and {count - NAMED} more. " if count > NAMED else ". "


def ranked(counts: Mapping[str, int]) -> str:
    """Return ``5 a, 2 b``, the largest count first."""
    order = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{count} {name}" for name, count in order)
