"""A user's own code by import path, ``package.module:name``."""

import importlib
import importlib.util
from typing import Any

from protocols.errors import DependencyError

REMEDY = (
    "start the run in the folder that holds the module, resume it with --code and that folder, or "
    "install its package"
)


def check(path: str, setting: str) -> None:
    """Raise DependencyError if there is no such module. Nothing but its packages is imported."""
    module, _, _ = path.partition(":")
    try:
        found = importlib.util.find_spec(module)
    except Exception as error:  # a package's own __init__ may raise anything
        raise DependencyError(f"{setting}: {path} cannot be imported: {error!r}") from error
    if found is None:
        raise DependencyError(f"{setting}: {path} names no module {module}; {REMEDY}")


def load(path: str) -> Any:
    """Import and return what ``path`` names. Raises DependencyError, and the module's errors."""
    module, _, name = path.partition(":")
    held = importlib.import_module(module)
    if not hasattr(held, name):
        raise DependencyError(f"{path}: the module {held.__file__} has no {name!r}")
    return getattr(held, name)
