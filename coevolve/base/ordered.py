"""Collections that stay in order: a change and a question cost O(log n), however many they hold.

`SumTree` draws by weight, or the n-th of its places. `Ranked` knows how many numbers are smaller
than a given one. Neither depends on the order in which it came to its content, so a fold that is
repeated gives the same answers, to the bit.
"""

from collections.abc import Hashable, Iterable
from typing import Any, Generic, TypeVar

from sortedcontainers import SortedList

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value", float, tuple[float, int])


class SumTree:
    """A number of 0 or more at each of the places 0, 1, 2, ..., and their sum.

    Each node of a binary tree holds the sum of the two below it. A changed sum is added anew, so
    rounding errors do not pile up.
    """

    def __init__(self) -> None:
        """Start with 0 at every place."""
        self._width = 1
        self._nodes: list[float] = [0, 0]
        """The root at 1; below node n the nodes 2n and 2n + 1; the places from ``_width`` on."""

    @property
    def total(self) -> float:
        """Return the sum; an int if all numbers are."""
        return self._nodes[1]

    def __getitem__(self, place: int) -> float:
        return self._nodes[self._width + place] if place < self._width else 0

    def __setitem__(self, place: int, number: float) -> None:
        while place >= self._width:
            self._double()
        nodes, node = self._nodes, self._width + place
        if nodes[node] == number:
            return
        nodes[node] = number
        while node > 1:
            node >>= 1
            nodes[node] = nodes[2 * node] + nodes[2 * node + 1]

    def place_of(self, point: float) -> int:
        """Return the first place up to which the numbers sum to more than ``point``.

        ``point`` is 0 or more and below the total, which is above 0. A place with 0 is never
        returned, also where rounding puts the point beyond the last number.
        """
        nodes, node = self._nodes, 1
        while node < self._width:
            node *= 2
            if point >= nodes[node] and nodes[node + 1]:
                point -= nodes[node]
                node += 1
        return node - self._width

    def moved(self, places: Iterable[int]) -> "SumTree":
        """Return a tree with the numbers of these places, in this order, at 0, 1, 2, ...."""
        tree = SumTree()
        for place, old in enumerate(places):
            tree[place] = self[old]
        return tree

    def _double(self) -> None:
        """Make room for as many places again; the whole tree becomes the new root's left side."""
        nodes: list[float] = [0] * (4 * self._width)
        level = 1
        while level <= self._width:
            nodes[2 * level : 3 * level] = self._nodes[level : 2 * level]
            level *= 2
        nodes[1] = self._nodes[1]
        self._width *= 2
        self._nodes = nodes


class Ranked(Generic[Key, Value]):
    """One value for each key, in ascending order of the values. No value may be NaN."""

    def __init__(self) -> None:
        self._values: dict[Key, Value] = {}
        self._sorted: Any = SortedList()

    def __len__(self) -> int:
        return len(self._values)

    def put(self, key: Key, value: Value) -> None:
        """Set the value of a key, in place of an earlier one."""
        if self._values.get(key) != value:
            self.remove(key)
            self._values[key] = value
            self._sorted.add(value)

    def get(self, key: Key) -> Value | None:
        """Return a key's value; None if it is not there."""
        return self._values.get(key)

    def remove(self, key: Key) -> None:
        if key in self._values:
            self._sorted.remove(self._values.pop(key))

    def at(self, rank: int) -> Value:
        """Return a value by its rank: 0 for the least. Raises IndexError."""
        return self._sorted[rank]

    def below(self, value: Value) -> int:
        """Return how many values are less than ``value``."""
        return self._sorted.bisect_left(value)

    def up_to(self, value: Value) -> int:
        """Return how many values are at most ``value``."""
        return self._sorted.bisect_right(value)
