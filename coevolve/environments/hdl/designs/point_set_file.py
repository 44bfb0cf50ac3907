"""Writes a design's set of points into its ``design.yaml``; the rest of the file stays the same."""

import re
from pathlib import Path

from coevolve.environments.hdl.designs.design import PointsFile
from coevolve.environments.hdl.designs.folders import load
from protocols.errors import ConfigError

_POINTS = re.compile(r"^points:.*\n(?:[ \t]+.*\n)*", re.MULTILINE)
"""The key ``points`` and the lines indented below it."""


def freeze(folder: Path, points: PointsFile) -> None:
    """Set ``points`` in the folder's ``design.yaml``; comments and order are kept.

    Raises ConfigError, and leaves the file unchanged, where its layout does not allow that.
    """
    path = folder / "design.yaml"
    before = path.read_text(encoding="utf-8")
    path.write_text(frozen(before, points), encoding="utf-8")
    if not _holds(folder, points):
        path.write_text(before, encoding="utf-8")
        raise ConfigError(
            f"{path}: needs `points:` at the beginning of a line, where it can be replaced; "
            f"write it by hand: {line(points)}"
        )


def _holds(folder: Path, points: PointsFile) -> bool:
    try:
        return load(folder).file.points == points
    except ConfigError:
        return False


def frozen(text: str, points: PointsFile) -> str:
    """Return the text of a ``design.yaml`` with ``points`` in it, in place or at the end."""
    if text and not text.endswith("\n"):
        text += "\n"
    without, found = _POINTS.subn(lambda _: f"{line(points)}\n", text, count=1)
    return without if found else f"{text}{line(points)}\n"


def line(points: PointsFile) -> str:
    """Return the line of ``design.yaml`` for ``points``."""
    return f"points: {{count: {points.count}, sha256: {points.sha256}}}"
