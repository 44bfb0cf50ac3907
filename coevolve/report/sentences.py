"""Pieces of the sentences that the report's findings consist of; times as text for people."""

from datetime import UTC, datetime

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


def moment(time_ns: int) -> str:
    """Return a Unix time as ``2026-01-31 12:00:00 UTC``; empty for 0."""
    if not time_ns:
        return ""
    return datetime.fromtimestamp(time_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def duration(seconds: float) -> str:
    """Return seconds as ``42 s``, ``12 min 3 s`` or ``3 h 20 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
