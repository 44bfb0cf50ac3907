"""What grades testbenches."""

from typing import Protocol

from coevolve.environments.hdl.simulate.messages import Evaluate, Evaluated, Point, Unit


class TestbenchSimulator(Protocol):
    """Grades testbenches by the coverage that they reach."""

    __test__ = False

    async def evaluate(self, request: Evaluate) -> Evaluated:
        """Grade one submission; a function of the request and the toolchain.

        Raises SimulatorError where the machine failed, and ConfigError where the unit itself does
        not compile.
        """
        ...

    async def points(self, unit: Unit) -> tuple[Point, ...]:
        """Return the unit's points, sorted, as `hdl.simulate.messages.Coverage.hits` counts them.

        Raises SimulatorError and ConfigError, as ``evaluate``.
        """
        ...
