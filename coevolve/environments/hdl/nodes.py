"""The nodes of pyslang's trees, of syntax and of elaborated designs, by their classes."""

from collections.abc import Iterator
from typing import Protocol, TypeVar

T = TypeVar("T")


class Tree(Protocol):
    """A node, with all below it."""

    def visit(self, f: object | None = None) -> None:
        """Call ``f`` with each node."""
        ...


def nodes(tree: Tree, *kinds: type[T]) -> Iterator[T]:
    """Yield the nodes of some classes, in the order of the text; ``tree`` may be one itself."""
    found: list[T] = []

    def visit(node: object) -> None:
        if isinstance(node, kinds):
            found.append(node)

    tree.visit(visit)
    yield from found
