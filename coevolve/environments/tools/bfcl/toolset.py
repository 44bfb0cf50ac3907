"""BFCL's simulator classes as tool sets, with their special cases."""

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any

from coevolve.environments.tools.bfcl import stock
from coevolve.environments.tools.bfcl.arithmetic import MAX_PRECISION, bounded
from coevolve.environments.tools.bfcl.compared import CyclicWorldError, compared
from coevolve.environments.tools.bfcl.directory import places, working_directory
from coevolve.environments.tools.bfcl.documents import read_documents
from coevolve.environments.tools.calls import Call
from coevolve.environments.tools.digest import digest
from coevolve.environments.tools.toolset import STATE_MISMATCH, ToolDocument
from coevolve.environments.tools.weight import weigh
from protocols.errors import SimulatorError

FILE_SYSTEM = "GorillaFileSystem"
STATELESS = "MathAPI"


class BfclToolSet:
    """A `coevolve.environments.tools.toolset.ToolSet`."""

    def __init__(self, name: str) -> None:
        """Check that ``name`` is one of the eight classes. Raises SimulatorError if it is not."""
        if name not in stock.DOCUMENTS:
            known = ", ".join(stock.DOCUMENTS)
            raise SimulatorError(f"unknown simulator class {name}; known classes: {known}")
        self._name = name

    @property
    def documents(self) -> tuple[ToolDocument, ...]:
        """The benchmark's own documentation, in its order."""
        return _documents(self._name)

    @property
    def parameters(self) -> Mapping[str, tuple[str, ...]]:
        """The parameters of the methods, because one document differs from its method."""
        return _parameters(self._name)

    def load(self) -> None:
        """Import the class and read its documentation.

        mpmath caches constants. They are computed here to the maximum precision, so that no session
        finds a value that another session cached or left incomplete.
        """
        stock.load(self._name)
        if self._name == STATELESS:
            stock.simulator_class(STATELESS)().logarithm(3, 10, MAX_PRECISION)
        assert self.documents

    def open(self, scenario: Any, *, long_context: bool) -> "BfclTools":
        return BfclTools(self._name, scenario, long_context=long_context)


_documents = cache(read_documents)


@cache
def _parameters(name: str) -> Mapping[str, tuple[str, ...]]:
    kind = stock.simulator_class(name)
    return {
        document.name: tuple(inspect.signature(getattr(kind, document.name)).parameters)[1:]
        for document in _documents(name)
    }


class BfclTools:
    """A `coevolve.environments.tools.toolset.OpenTools` for one simulator."""

    def __init__(self, name: str, scenario: Any, *, long_context: bool) -> None:
        self._name = name
        self.rewards = False
        self._shared = stock.Shared(name, long_context=long_context)
        self._shared.install()
        self.state = stock.simulator_class(name)()
        if name != STATELESS:
            self.state._load_scenario(scenario, long_context=long_context)

    def call(self, call: Call) -> object:
        """Execute a call with bounded arithmetic."""
        safe = bounded(call) if self._name == STATELESS else call
        self._shared.install()
        return getattr(self.state, safe.tool)(*safe.positional, **safe.named)

    def weigh(self) -> int:
        return weigh(vars(self.state), has_folders=True)

    def digest(self) -> str:
        """Return a digest of what BFCL's rules compare; empty if the state contains itself."""
        try:
            return digest(compared(self.state), self._name)
        except (CyclicWorldError, RecursionError):
            return ""

    def fault(self, reference: "BfclTools", *, checks_directory: bool) -> str:
        """Return the fault that BFCL's checker finds; with ``checks_directory`` also its own."""
        try:
            word = stock.check_state({self._name: self.state}, {self._name: reference.state})
        except AttributeError:
            return STATE_MISMATCH
        if word or not (checks_directory and self._name == FILE_SYSTEM):
            return word
        here, there = places(self.state), places(reference.state)
        same_place = here == there or bool(here & there)
        if same_place and working_directory(self.state) == working_directory(reference.state):
            return ""
        return "working_directory_mismatch"

    def reward(self, task: dict[str, Any], words: str) -> float:
        """Raise SimulatorError: BFCL grades by the reference."""
        raise SimulatorError(f"{self._name} gives no rewards")
