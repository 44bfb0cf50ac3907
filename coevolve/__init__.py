"""Train LLM agents in a closed loop where the policy and its training data improve each other."""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coevolve.api import RunResult, run

__all__ = ["RunResult", "__version__", "run"]

try:
    __version__ = version("coevolve")
except PackageNotFoundError:  # a checkout that is on the path and not installed
    __version__ = "0+unknown"


def __getattr__(name: str) -> Any:
    """Import what starts runs when it is asked for: every part imports this package."""
    if name in ("run", "RunResult"):
        from coevolve import api

        return getattr(api, name)
    raise AttributeError(f"module 'coevolve' has no attribute {name!r}")
