"""The package that reads RTL, which an installation may lack."""

from coevolve.environments.sdk import extra, require


def require_slang() -> None:
    """Raise DependencyError where pyslang is not installed."""
    require("pyslang", "reading hardware designs", extra("hdl"))
