"""The gate as a whole, at its two levels: finds the module to simulate, or refuses the text."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from coevolve.environments.hdl.gate.elaboration import Refusal, find_top, reads
from coevolve.environments.hdl.gate.source import only_references, violations
from coevolve.environments.hdl.simulate.messages import GateLevel, Rejected, Unit, Violation


class Gate(Protocol):
    """A check that refuses a text before any of it is compiled."""

    def __call__(
        self, text: str, unit: Unit, *, instance: str = "", reads: Sequence[tuple[int, int]] = ()
    ) -> tuple[Violation, ...]:
        """Return the violations in the testbench, without the places in ``reads``."""
        ...


def admitted(
    text: str,
    unit: Unit,
    *,
    told: str = "",
    instance: str = "",
    level: GateLevel = "policy",
    gate: Gate = violations,
) -> str | Refusal:
    """Return the module to simulate: ``told`` or the only one; or why nothing is simulated. Blocks.

    Raises SimulatorError on an infrastructure failure.
    """
    if level == "trusted":
        return find_top(text, unit, told, trusted=True)
    planned = msgspec.structs.replace(unit, files=(*unit.files, *unit.plan))
    found = gate(text, planned, instance=instance)
    if found and only_references(found) and not unit.keeps_secret:
        found = gate(text, planned, instance=instance, reads=reads(text, unit, told))
    return Rejected(violations=found) if found else find_top(text, unit, told)
