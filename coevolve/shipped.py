"""Where coevolve is, and the run files and hardware designs that come with it.

A wheel carries them in the folder ``shipped`` beside this module; in a checkout they are the
repository's own.
"""

from pathlib import Path


def import_folder() -> Path:
    """Return the folder that has to be on the path of a process that imports coevolve."""
    return Path(__file__).parents[1]


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
