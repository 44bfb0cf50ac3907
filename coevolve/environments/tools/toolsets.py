"""Tool sets: classes of tools that share one state, found by name in any process.

A task names its tool sets (`protocols.tasks.ToolTask.classes`). The eight of BFCL go by their class
names, your own by ``package.module:Class`` (`coevolve.environments.tools.simple`).
"""

import importlib
from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol

import msgspec

from coevolve.environments.tools.calls import Call
from protocols.errors import SimulatorError

STATE_MISMATCH = "instance_state_mismatch"
"""How a state is told that differs from the reference's, in the words of BFCL's checker."""


class ToolDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What a prompt may say of one tool."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema; an object may also be called ``dict``, a number ``float``, as BFCL does."""


class OpenTools(Protocol):
    """The tools of one world, with their state."""

    @property
    def state(self) -> Any:
        """Return what is weighed and digested: an object whose attributes are the state."""
        ...

    def call(self, call: Call) -> object:
        """Carry out a call of a known tool; raises whatever the tool raises."""
        ...

    def fault(self, reference: Any, *, checks_directory: bool) -> str:
        """Return how the state differs from that of ``reference``, in one word; empty if not."""
        ...

    @property
    def rewards(self) -> bool:
        """Whether the tools say what an attempt is worth; otherwise the reference decides."""
        ...

    def reward(self, task: dict[str, Any], words: str) -> float:
        """Return the reward after the last turn, 0..1. Raises SimulatorError.

        ``words`` are what the policy said last.
        """
        ...


class ToolSet(Protocol):
    """A class of tools."""

    @property
    def documents(self) -> tuple[ToolDocument, ...]:
        """Return the documentation of every tool."""
        ...

    @property
    def parameters(self) -> Mapping[str, tuple[str, ...]]:
        """Return the names of every tool's parameters, in the order of its signature."""
        ...

    def load(self) -> None:
        """Read every file that a world will need: once confined, a process can open none."""
        ...

    def open(self, scenario: Any, *, long_context: bool) -> OpenTools:
        """Return the tools of a fresh world."""
        ...


@cache
def tool_set(name: str) -> ToolSet:
    """Return the tool set of this name.

    Raises:
        SimulatorError: There is none.
        DependencyError: The package that holds it is not installed.
    """
    if ":" in name:
        from coevolve.environments.tools.simple import PlainToolSet, plain_class

        return PlainToolSet(plain_class(name))
    from coevolve.environments.tools.bfcl.toolset import BfclToolSet

    return BfclToolSet(name)


def is_tool_set(name: str) -> bool:
    """Return whether there is a tool set of this name."""
    try:
        tool_set(name)
    except (SimulatorError, ImportError):
        return False
    return True


def tool_documents(name: str) -> tuple[ToolDocument, ...]:
    """Return the documentation of every tool of a tool set. Raises as `tool_set` does."""
    return tool_set(name).documents


def import_named(path: str) -> Any:
    """Return the object that ``package.module:name`` names. Raises ImportError, AttributeError."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
