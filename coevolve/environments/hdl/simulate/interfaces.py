"""The interface of a simulator that grades testbenches."""

from typing import Protocol

from coevolve.environments.hdl.simulate.messages import Evaluate, Evaluated, Point, Unit


class TestbenchSimulator(Protocol):
    """Grades testbenches by the coverage that they reach."""

    __test__ = False

    async def evaluate(self, request: Evaluate) -> Evaluated:
        """Grade one submission. The result depends only on the request and the toolchain.

        Raises SimulatorError on an infrastructure failure, and ConfigError where the unit itself
        does not compile.
        """
        ...

    async def points(self, unit: Unit) -> tuple[Point, ...]:
        """Return the unit's points, sorted, in the order of `hdl.simulate.messages.Coverage.hits`.

        Raises SimulatorError and ConfigError, as ``evaluate``.
        """
        ...
