"""Times and durations as text for people."""

from datetime import UTC, datetime


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
