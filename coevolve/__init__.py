"""Trains LLM agents in a closed loop where the policy and its training data improve each other."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coevolve.api import RunResult, run

__version__: str

__all__ = ["RunResult", "__version__", "run"]


def __getattr__(name: str) -> Any:
    """Import what a name needs when somebody asks for it: every process imports this package."""
    if name == "__version__":
        from importlib.metadata import version

        return version("coevolve")
    if name in ("run", "RunResult"):
        from coevolve import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List also the names that are not imported yet, so that shells complete them."""
    return sorted({*globals(), *__all__})
