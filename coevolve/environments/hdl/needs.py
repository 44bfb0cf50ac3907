"""The package that reads RTL, which an installation may lack."""

from coevolve.dependencies import extra, leave_without, require

SLANG = ("pyslang", "reading hardware designs", extra("hdl"))


def require_slang() -> None:
    """Raise DependencyError where pyslang is not installed."""
    require(*SLANG)


def leave_without_slang() -> None:
    """End a command whose own imports need pyslang, where it is not installed."""
    leave_without(*SLANG)
