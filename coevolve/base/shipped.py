"""Where coevolve is, and the run files and hardware designs that come with it.

A wheel carries them in the package's folder ``shipped``; in a checkout they are the
repository's own.
"""

from pathlib import Path


def import_folder() -> Path:
    """Return the folder that has to be on the path of a process that imports coevolve."""
    return Path(__file__).parents[2]


def configs() -> Path:
    """Return the folder of run files."""
    return shipped_folder("configs")


def shipped_folder(name: str) -> Path:
    """Return a folder that comes with coevolve: ``configs`` or ``designs``."""
    package = Path(__file__).parents[1]
    carried = package / "shipped" / name
    return carried if carried.is_dir() else package.parent / name
