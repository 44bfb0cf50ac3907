"""Takes from several sources in turn."""

from collections.abc import Iterable, Iterator
from itertools import chain, zip_longest
from typing import Any, TypeVar

ItemT = TypeVar("ItemT")

_GAP: Any = object()


def in_turn(*sources: Iterable[ItemT]) -> Iterator[ItemT]:
    """Yield the first of each source, then the second of each, and so on to the longest's end."""
    every = chain.from_iterable(zip_longest(*sources, fillvalue=_GAP))
    return (each for each in every if each is not _GAP)
