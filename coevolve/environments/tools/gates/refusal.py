"""How a gate refuses a candidate."""

from protocols.evolution import Gate, Refused

MAX_FOUND_CHARS = 240


class RefusedError(Exception):
    """A gate refused the candidate; only `gates.executed` catches this."""

    def __init__(self, gate: Gate, found: str) -> None:
        """Shorten what was found to `MAX_FOUND_CHARS`."""
        super().__init__(found)
        self.refused = Refused(gate=gate, found=found[:MAX_FOUND_CHARS])


def refuse(gate: Gate, found: str) -> None:
    """Raise RefusedError if something was found."""
    if found:
        raise RefusedError(gate, found)
