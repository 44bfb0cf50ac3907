"""What a tool set is: a class of tools that share one state."""

import importlib
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from coevolve.environments.tools.calls import Call

STATE_MISMATCH = "instance_state_mismatch"
"""The fault of a state that differs from the reference's; the name is that of BFCL's checker."""


class ToolDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Documentation of one tool for a prompt."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema; as in BFCL, an object may be called ``dict`` and a number ``float``."""


class OpenTools(Protocol):
    """The tools of one world, with their state."""

    @property
    def state(self) -> Any:
        """The current state."""
        ...

    def weigh(self) -> int:
        """Return the weight of the state (`tools.weight`). Raises OverweightError."""
        ...

    def digest(self) -> str:
        """Return a digest of the state (`tools.digest`); empty if it cannot be walked to its end.

        Raises SimulatorError if the state cannot be compared.
        """
        ...

    def call(self, call: Call) -> object:
        """Execute a call of a known tool; raises any error that the tool raises."""
        ...

    def fault(self, reference: Any, *, checks_directory: bool) -> str:
        """Return how the state differs from that of ``reference``, in one word; empty if equal."""
        ...

    @property
    def rewards(self) -> bool:
        """Whether the tools reward an attempt; otherwise the reference decides."""
        ...

    def reward(self, task: dict[str, Any], words: str) -> float:
        """Return the reward after the last turn, in [0, 1]. Raises SimulatorError.

        ``words`` are the policy's last words.
        """
        ...


class ToolSet(Protocol):
    """A class of tools."""

    @property
    def documents(self) -> tuple[ToolDocument, ...]:
        """The documentation of every tool."""
        ...

    @property
    def parameters(self) -> Mapping[str, tuple[str, ...]]:
        """The names of every tool's parameters, in the order of its signature."""
        ...

    def load(self) -> None:
        """Read every file that a world will need, because a confined process can open none."""
        ...

    def open(self, scenario: Any, *, long_context: bool) -> OpenTools:
        """Return the tools of a new world."""
        ...


def import_named(path: str) -> Any:
    """Return the object named by ``package.module:name``. Raises ImportError, AttributeError."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
