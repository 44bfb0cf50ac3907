"""A baseline's view of a design: its ports, clock, reset and constants."""

import msgspec

from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.simulate.messages import Port, Reset
from coevolve.environments.hdl.stimulus.program import Pins, pins


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A design without its RTL."""

    ports: tuple[Port, ...]
    clock: str
    reset: Reset | None
    literals: tuple[int, ...] = ()
    """Constants of the specification."""

    @property
    def pins(self) -> Pins:
        """The ports by their role in a program."""
        return pins(self.ports, self.clock, self.reset)


def target_of(design: Design) -> Target:
    """Return a baseline's view of ``design``."""
    return Target(
        ports=design.ports,
        clock=design.file.clock,
        reset=design.file.reset,
        literals=design.file.literals,
    )
