"""An environment's own way to evaluate policies, which `coevolve evaluate` then follows."""

import contextlib
import importlib
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from coevolve.environments.registry import environment_type, names
from coevolve.parts.context import PartContext
from protocols.config import RunConfig
from protocols.errors import CoevolveError
from protocols.interfaces import Generator

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, kw_only=True)
class ServedPolicy:
    """A policy version and an engine that serves it."""

    name: str
    context: PartContext
    engine: Generator


@dataclass(frozen=True, kw_only=True)
class EvaluationRequest:
    """The policy that the command line names, and its settings."""

    config: RunConfig | None
    """Settings of its run or run file; None if the command line names no policy."""

    check: Callable[[], None]
    """Checks that this machine can run the policy. Raises ConfigError and DependencyError."""

    serve: Callable[[RunConfig], AbstractAsyncContextManager[ServedPolicy]]
    """Serves the policy under the given settings. Raises ConfigError, RunError and
    GeneratorError."""


@dataclass(frozen=True, kw_only=True)
class OwnEvaluation:
    """An evaluation with options of its own."""

    about: str
    """What it does, in a paragraph for ``--help``."""

    options: tuple[click.Option, ...]
    """The options that `coevolve evaluate` has for this environment alone."""

    check: Callable[..., None]
    """Refuses options that do not go together; takes their values by name. Raises UsageError."""

    evaluate: "Callable[..., tuple[object, RenderableType]]"
    """Takes an `EvaluationRequest` and the values of the options by name; returns the report, which
    can be written as JSON, and the text to print. Raises CoevolveError and UsageError."""

    @property
    def names(self) -> frozenset[str]:
        """The names of the options' values."""
        return frozenset(each.name for each in self.options if each.name)

    def values(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of this evaluation's options among those of all."""
        return {name: options[name] for name in self.names}


def own_evaluations() -> Mapping[str, OwnEvaluation]:
    """Return the evaluations of the named environments that have one, by environment."""
    found: dict[str, OwnEvaluation] = {}
    for use in names():
        with contextlib.suppress(CoevolveError):  # ignore broken third-party packages
            if place := environment_type(use).evaluation:
                module, _, attribute = place.partition(":")
                found[use] = getattr(importlib.import_module(module), attribute)
    return found
