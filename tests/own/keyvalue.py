"""A key-value store: all that it takes to bring tools of one's own."""


class KeyValue:
    """A little store of texts."""

    def reset(self, world: dict[str, str]) -> None:
        self.data = dict(world)

    def get(self, key: str) -> str:
        """Return the value of a key."""
        return self.data[key]

    def put(self, key: str, value: str) -> str:
        """Set a key, new or not, to a value."""
        self.data[key] = value
        return "ok"

    def delete(self, key: str) -> str:
        """Remove a key."""
        del self.data[key]
        return "ok"

    def rename(self, old: str, new: str) -> str:
        """Give the value of one key to another key, and remove the first."""
        self.data[new] = self.data.pop(old)
        return "ok"

    def keys(self) -> list[str]:
        """Return all keys, sorted."""
        return sorted(self.data)
