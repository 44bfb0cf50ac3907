"""Where the key of an endpoint comes from: an environment variable, which is never recorded."""

import os

from protocols.errors import DependencyError
from protocols.synthesizers import EndpointModel

DEFAULT_VARIABLE = "OPENAI_API_KEY"
"""Of models that name none; it may be unset, because many servers want no key."""


def variable_of(model: EndpointModel) -> str:
    """Return the environment variable that holds the model's key."""
    return model.key_variable or DEFAULT_VARIABLE


def key_of(model: EndpointModel) -> str:
    """Return the key; empty where there is none."""
    return os.environ.get(variable_of(model), "")


def check_key(model: EndpointModel, setting: str) -> None:
    """Raise DependencyError where the model names a variable that is not set in this process.

    ``setting`` is where it is named, for example ``synthesizer.model.key_variable``.
    """
    if model.key_variable and not key_of(model):
        raise DependencyError(
            f"{setting}: {model.key_variable} is not set in this environment; export it before "
            f"the start, or leave it out if {model.base_url} wants no key"
        )
