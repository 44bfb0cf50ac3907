"""Pieces of the sentences that the report's findings consist of."""

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
