"""Ferries between ports."""

from typing import Any


class Ferry:
    """Ferries that carry passengers between ports, and the fares."""

    def reset(self, world: dict[str, dict[str, Any]]) -> None:
        self.boats = dict(world["boats"])
        self.aboard = dict(world["aboard"])
        self.fares = dict(world["fares"])

    def sail(self, boat: str, port: str) -> str:
        """Send a boat to a port."""
        if boat not in self.boats:
            raise ValueError(f"no boat {boat}")
        if port not in self.fares:
            raise ValueError(f"no port {port}")
        if self.boats[boat] == port:
            raise ValueError(f"{boat} is in {port} already")
        self.boats[boat] = port
        return "sailed"

    def locate(self, boat: str) -> str:
        """Return the port where a boat is."""
        if boat not in self.boats:
            raise ValueError(f"no boat {boat}")
        return self.boats[boat]

    def board(self, person: str, boat: str) -> str:
        """Put a person on a boat."""
        if boat not in self.boats:
            raise ValueError(f"no boat {boat}")
        if person in self.aboard:
            raise ValueError(f"{person} is on {self.aboard[person]} already")
        self.aboard[person] = boat
        return "boarded"

    def leave(self, person: str) -> str:
        """Take a person off the boat."""
        if person not in self.aboard:
            raise ValueError(f"{person} is on no boat")
        del self.aboard[person]
        return "left"

    def fare(self, port: str) -> int:
        """Return the fare to a port."""
        if port not in self.fares:
            raise ValueError(f"no port {port}")
        return self.fares[port]

    def set_fare(self, port: str, price: int) -> str:
        """Set the fare to a port."""
        if port not in self.fares:
            raise ValueError(f"no port {port}")
        if price < 1:
            raise ValueError("the price is at least 1")
        self.fares[port] = price
        return "set"
