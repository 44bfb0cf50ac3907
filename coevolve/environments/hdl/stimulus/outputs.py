"""Hashes a design's outputs while a stimulus program runs, to compare designs.

Two designs are equal under a program if their outputs are the same at the end of every time slot.
The hash covers the outputs in words of 64 bits and the times at which they change, as in
`hdl.designs.output_trace`; a program and the testbench that it prints as find the same differences.
A design with an output wider than 64 bits, or with an ``inout``, cannot be compared like this; see
`is_told`.
"""

import asyncio
import threading
from collections.abc import Sequence

from coevolve.environments.hdl.simulate.messages import Port, Unit
from coevolve.environments.hdl.simulate.toolchain import Toolchain
from coevolve.environments.hdl.stimulus.compiled import compiled
from coevolve.environments.hdl.stimulus.instructions import request
from coevolve.environments.hdl.stimulus.program import WORD_BITS, Pins, Program, pins
from coevolve.environments.hdl.stimulus.server import PROGRAM_S, Server
from coevolve.environments.sdk import Sandbox

TOLD_BYTES = 16
"""Size of an answer: the hash, and how often the outputs changed."""


def is_told(ports: Sequence[Port]) -> bool:
    """Return whether the comparison covers all outputs of a design."""
    return all(
        port.direction == "in" or (port.direction == "out" and port.width <= WORD_BITS)
        for port in ports
    )


def output_server(
    unit: Unit, ports: Sequence[Port], toolchain: Toolchain, sandbox: Sandbox
) -> tuple[Server, Pins]:
    """Return what tells a design's outputs, compiled or taken from the cache, and its pins. Blocks.

    Raises ConfigError where the design does not compile, and SimulatorError.
    """
    design_pins = pins(ports, unit.clock, unit.reset)
    design = compiled(
        unit, ports, design_pins, toolchain=toolchain, sandbox=sandbox, optimise="-O0"
    )
    return Server(design, sandbox, ("trace",), PROGRAM_S), design_pins


class OutputHarness:
    """One design, compiled and running, whose outputs are hashed."""

    def __init__(self, server: Server, design_pins: Pins) -> None:
        self._server = server
        self._pins = design_pins
        self._turn = threading.Lock()

    @classmethod
    async def open(
        cls, unit: Unit, ports: Sequence[Port], toolchain: Toolchain, sandbox: Sandbox
    ) -> "OutputHarness":
        """Return the harness; raises as `output_server`."""
        return cls(*await asyncio.to_thread(output_server, unit, ports, toolchain, sandbox))

    async def run(self, program: Program, seed: int) -> bytes:
        """Return the hash of the outputs. Raises SimulatorError if the child died or hung."""
        return await asyncio.to_thread(self._run, program, seed)

    async def close(self) -> None:
        """End the child; a later `run` starts another."""
        await asyncio.to_thread(self._close)

    def _run(self, program: Program, seed: int) -> bytes:
        with self._turn:
            return self._server.ask(request([program], self._pins, seed), TOLD_BYTES)

    def _close(self) -> None:
        with self._turn:
            self._server.end()
