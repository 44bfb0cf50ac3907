"""Reads an endpoint's key from an environment variable; the key is never recorded."""

import os

from protocols.errors import DependencyError
from protocols.synthesizers import EndpointModel

DEFAULT_VARIABLE = "OPENAI_API_KEY"
"""Default variable. It may be unset, because many servers need no key."""


def variable_of(model: EndpointModel) -> str:
    """Return the environment variable that holds the model's key."""
    return model.key_variable or DEFAULT_VARIABLE


def key_of(model: EndpointModel) -> str:
    """Return the key; empty if there is none."""
    return os.environ.get(variable_of(model), "")


def check_key(model: EndpointModel, setting: str) -> None:
    """Raise DependencyError if the model names a variable that is not set in this process.

    ``setting`` is the setting that names it, for example ``synthesizer.model.key_variable``.
    """
    if model.key_variable and not key_of(model):
        raise DependencyError(
            f"{setting}: {model.key_variable} is not set in this environment; export it before "
            f"the start, or leave it out if {model.base_url} wants no key"
        )
