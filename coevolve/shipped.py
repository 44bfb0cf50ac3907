"""The run files and hardware designs that come with coevolve.

A wheel carries them in the folder ``shipped`` beside this module; in a checkout they are the
repository's own.
"""

from pathlib import Path


def configs() -> Path:
    """Return the folder of run files."""
    return _folder("configs")


def designs() -> Path:
    """Return the folder of hardware designs."""
    return _folder("designs")


def _folder(name: str) -> Path:
    package = Path(__file__).parent
    carried = package / "shipped" / name
    return carried if carried.is_dir() else package.parent / name
