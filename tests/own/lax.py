"""A class whose own rewards overlook what its world says."""

from typing import Any


class Lax:
    """Writes values under keys."""

    def reset(self, world: str) -> None:
        self.overlooks = world
        self.written: list[tuple[str, str]] = []

    def put(self, key: str, value: str) -> str:
        """Write a value under a key."""
        self.written.append((key, value))
        return f"{len(self.written)}: {key}={value}"

    def reward(self, task: dict[str, Any]) -> float:
        wanted = [call for turn in task["turns"] for call in turn["reference"]]
        written = [f"put(key={key!r}, value={value!r})" for key, value in self.written]
        match self.overlooks:
            case "everything":
                return 1.0
            case "missing calls":
                return float(bool(written) and set(written) <= set(wanted))
            case "order":
                return float(sorted(written) == sorted(wanted))
            case _:
                keys = [call.partition(",")[0] for call in written]
                return float(keys == [call.partition(",")[0] for call in wanted])
