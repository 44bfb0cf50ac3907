"""A to-do list: your own tools as a plain class."""


class Todo:
    """A list of things to do."""

    def reset(self, world: dict[str, bool]) -> None:
        """Begin with the entries of a task's world, and whether they are done."""
        self.entries = dict(world)

    def show(self) -> dict[str, bool]:
        """Return every entry and whether it is done."""
        return self.entries

    def add(self, entry: str) -> str:
        """Add an entry that is not done yet."""
        if entry in self.entries:
            raise ValueError(f"{entry!r} is on the list already")
        self.entries[entry] = False
        return "added"

    def finish(self, entry: str) -> str:
        """Mark an entry as done."""
        if entry not in self.entries:
            raise KeyError(entry)
        self.entries[entry] = True
        return "done"

    def drop(self, entry: str) -> str:
        """Remove an entry, done or not."""
        del self.entries[entry]
        return "removed"
