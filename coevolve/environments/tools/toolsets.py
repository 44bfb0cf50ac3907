"""Finds tool sets by name, in any process.

A task names its tool sets (`coevolve.environments.tools.task.ToolTask.classes`). The eight of BFCL
have their class names, your own have ``package.module:Class``
(`coevolve.environments.tools.simple`).
"""

from functools import cache

from coevolve.environments.tools.bfcl.toolset import BfclToolSet
from coevolve.environments.tools.simple import PlainToolSet, plain_class
from coevolve.environments.tools.toolset import ToolDocument, ToolSet
from protocols.errors import SimulatorError


@cache
def tool_set(name: str) -> ToolSet:
    """Return the tool set with this name.

    Raises:
        SimulatorError: There is no such tool set.
        DependencyError: The package that has it is not installed.
    """
    if ":" in name:
        return PlainToolSet(plain_class(name))
    return BfclToolSet(name)


def is_tool_set(name: str) -> bool:
    """Return whether there is a tool set with this name."""
    try:
        tool_set(name)
    except (SimulatorError, ImportError):
        return False
    return True


def tool_documents(name: str) -> tuple[ToolDocument, ...]:
    """Return the documentation of every tool of a tool set. Raises as `tool_set` does."""
    return tool_set(name).documents
