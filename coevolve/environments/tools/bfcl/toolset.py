"""BFCL's simulator classes as tool sets, with what is particular to them."""

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any

from coevolve.environments.tools.bfcl import stock
from coevolve.environments.tools.bfcl.arithmetic import MAX_PRECISION, bounded
from coevolve.environments.tools.bfcl.catalogue import read_documents
from coevolve.environments.tools.bfcl.directory import places, working_directory
from coevolve.environments.tools.calls import Call
from coevolve.environments.tools.toolsets import STATE_MISMATCH, ToolDocument
from protocols.errors import SimulatorError

FILE_SYSTEM = "GorillaFileSystem"
STATELESS = "MathAPI"


class BfclToolSet:
    """A `coevolve.environments.tools.toolsets.ToolSet`."""

    def __init__(self, name: str) -> None:
        """Name one of the eight classes. Raises SimulatorError if it is none of them."""
        if name not in stock.DOCUMENTS:
            known = ", ".join(stock.DOCUMENTS)
            raise SimulatorError(f"unknown simulator class {name}; there are {known}")
        self._name = name

    @property
    def documents(self) -> tuple[ToolDocument, ...]:
        """Return the benchmark's own documentation, in its order."""
        return _documents(self._name)

    @property
    def parameters(self) -> Mapping[str, tuple[str, ...]]:
        """Return the parameters of the methods; one document differs from its method."""
        return _parameters(self._name)

    def load(self) -> None:
        """Import the class and read its documentation.

        The constants that mpmath remembers are computed here, to their greatest precision: no
        session finds another's, nor half of one.
        """
        stock.load(self._name)
        if self._name == STATELESS:
            stock.simulator_class(STATELESS)().logarithm(3, 10, MAX_PRECISION)
        assert self.documents

    def open(self, scenario: Any, *, long_context: bool) -> "BfclTools":
        """Return a fresh simulator with the scenario."""
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
    """A `coevolve.environments.tools.toolsets.OpenTools` over one simulator."""

    def __init__(self, name: str, scenario: Any, *, long_context: bool) -> None:
        self._name = name
        self.rewards = False
        self._shared = stock.Shared(name, long_context=long_context)
        self._shared.install()
        self.state = stock.simulator_class(name)()
        if name != STATELESS:
            self.state._load_scenario(scenario, long_context=long_context)

    def call(self, call: Call) -> object:
        """Carry out a call, its arithmetic bounded."""
        tame = bounded(call) if self._name == STATELESS else call
        self._shared.install()
        return getattr(self.state, tame.tool)(*tame.positional, **tame.named)

    def fault(self, reference: "BfclTools", *, checks_directory: bool) -> str:
        """Return the word of BFCL's own checker; with ``checks_directory`` also the place."""
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
        """Raise: the reference decides."""
        raise SimulatorError(f"{self._name} gives no rewards")
