"""The tools of a toolbox, as a plain class (`coevolve.environments.tools.simple`).

The first tool of a task takes its thing, and each further one takes over in the mode of its link. A
call that does neither answers with an error and spoils the work for good. So each task has exactly
one sequence of calls that solves it.
"""

from collections.abc import Callable
from typing import Any

from coevolve.environments.tools.toolbox.words import OK, TOOLS, mode_of


class Toolbox:
    """Tools that are applied to one thing, one after another."""

    def reset(self, world: dict[str, Any]) -> None:
        """Begin with the thing of an order (a request), and with the links of a domain."""
        self.domain: int = world["domain"]
        self.thing: str = world["order"].split()[1]
        self.used: list[str] = []
        self.is_spoilt = False

    def _use(self, tool: str, thing: str, mode: str) -> str:
        wanted = ("", mode_of(self.domain, self.used[-1], tool)) if self.used else (self.thing, "")
        self.used.append(tool)
        if (thing, mode) == wanted:
            return OK
        self.is_spoilt = True
        raise ValueError("it takes the task's thing if it is the first tool, else the link's mode")


def _method(tool: str) -> Callable[..., str]:
    def use(self, thing: str = "", mode: str = "") -> str:  # pyright: ignore
        """Apply the tool to a thing, or take over from the tool before in a mode."""
        return self._use(tool, thing, mode)  # pyright: ignore

    use.__name__ = use.__qualname__ = tool
    return use  # pyright: ignore


for _tool in TOOLS:
    setattr(Toolbox, _tool, _method(_tool))
