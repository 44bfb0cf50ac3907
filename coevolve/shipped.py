"""Folders that coevolve carries: in a checkout they stand beside it, in a wheel inside it."""

from pathlib import Path

ROOT = Path(__file__).parent


def configs() -> Path:
    """Return the folder of the run files."""
    return _folder("configs")


def designs() -> Path:
    """Return the folder of the hardware designs."""
    return _folder("designs")


def _folder(name: str) -> Path:
    inside = ROOT / "shipped" / name
    return inside if inside.is_dir() else ROOT.parent / name
