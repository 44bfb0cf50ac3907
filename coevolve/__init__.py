"""Trains LLM agents in a closed loop where the policy and its training data improve each other."""

__version__: str


def __getattr__(name: str) -> str:
    """Return the version of the installed distribution, once somebody asks for it."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("coevolve")
