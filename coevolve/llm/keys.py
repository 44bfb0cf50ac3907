"""Reads an endpoint's key from an environment variable; the key is never recorded."""

import os
from collections.abc import Mapping

from protocols.errors import DependencyError
from protocols.synthesizers import EndpointModel

DEFAULT_VARIABLE = "OPENAI_API_KEY"
"""Default variable. It may be unset, because many servers need no key."""


def variable_of(model: EndpointModel) -> str:
    """Return the environment variable that holds the model's key."""
    return model.key_variable or DEFAULT_VARIABLE


_PROVIDED: dict[str, str] = {}
"""Keys that this process was given; its environment does not hold the launcher's secrets."""


def provide(keys: Mapping[str, str]) -> None:
    """Make keys known to this process, by their variables; they stay out of its environment."""
    _PROVIDED.update(keys)


def key_of(model: EndpointModel) -> str:
    """Return the key without blanks around it, such as a file's last newline; empty without one."""
    variable = variable_of(model)
    return (os.environ.get(variable) or _PROVIDED.get(variable, "")).strip()


def check_key(model: EndpointModel, setting: str) -> None:
    """Raise DependencyError if the model names a variable that is not set in this process.

    ``setting`` is the setting that names it, for example ``synthesizer.model.key_variable``.
    """
    if model.key_variable and not key_of(model):
        raise DependencyError(
            f"{setting}: {model.key_variable} is not set in this environment; export it before "
            f"the start, or leave it out if {model.base_url} wants no key"
        )
