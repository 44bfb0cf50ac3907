"""Hints at what a misspelt name may mean."""

import difflib
from collections.abc import Iterable
from pathlib import Path

MAX_CHARS = 200
"""Longer texts are no names; comparing them would take long."""


def nearest(written: str, known: Iterable[str]) -> str:
    """Return the most similar one of ``known``; empty if none is similar."""
    near = difflib.get_close_matches(written, list(known), 1) if len(written) < MAX_CHARS else []
    return near[0] if near else ""


def did_you_mean(written: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'NAME'?`` for the nearest one; empty if none is similar."""
    near = nearest(written, known)
    return f"; did you mean {near!r}?" if near else ""


def file_meant(path: Path) -> str:
    """Return the hint at a file or folder beside ``path``; empty if ``path`` exists.

    If none has a similar name, it is the only one with the same suffix.
    """
    try:
        beside = (
            [] if path.exists() else [each.name for each in path.parent.iterdir() if each != path]
        )
    except OSError:
        return ""
    alike = [each for each in beside if path.suffix and each.endswith(path.suffix)]
    near = nearest(path.name, beside) or (alike[0] if len(alike) == 1 else "")
    return f"; did you mean {str(path.with_name(near))!r}?" if near else ""
