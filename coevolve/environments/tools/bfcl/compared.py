"""What is compared of BFCL's simulators, by their own rules.

All their attributes count, private ones included: the working directory, the state of random
generators. As in the simulators' own comparison, numbers compare by value, and a tree that shares
its files equals a tree with copies. Two things differ from a plain walk over attributes:

- if a folder's parent is not the folder that holds it, the names of the folders above it count
instead of the parent;
- a file's time of last change is left out, because it depends on the wall clock.
"""

from collections.abc import Mapping
from random import Random
from typing import Any, cast

_CLOCK = "_last_modified"
_UP = "parent"
_HELD = "contents"
_WORKING = "_current_dir"


class CyclicWorldError(Exception):
    """The world contains itself, so a walk over it would never end."""


def compared(value: Any, above: tuple[object, ...] = ()) -> Any:
    """Return what is compared of a value; ``above`` are its containers, outermost first.

    Raises:
        CyclicWorldError: The value contains itself.
    """
    match value:
        case str() | None | bytes():
            return value
        case bool() | int():
            return int(value)
        case float():
            return int(value) if value.is_integer() else value
        case list() | tuple():
            held = cast("list[Any] | tuple[Any, ...]", value)
            inside = _inside(held, above)
            items = (compared(item, inside) for item in held)
            return tuple(items) if isinstance(value, tuple) else list(items)
        case dict():
            entries = cast("dict[Any, Any]", value)
            return _entries(entries, _inside(entries, above))
        case Random():
            return "random", repr(value.getstate())
        case _ if hasattr(value, "__dict__"):
            return type(value).__name__, _attributes(value, above)
        case _:
            return value


def _entries(entries: Mapping[Any, Any], inside: tuple[object, ...]) -> dict[Any, Any]:
    return {key: compared(entry, inside) for key, entry in entries.items()}


def _attributes(value: Any, above: tuple[object, ...]) -> dict[str, Any]:
    held = cast("dict[str, Any]", vars(value))
    attributes = {name: each for name, each in held.items() if name != _CLOCK}
    if _UP in attributes and _HELD in attributes:
        holder = next((each for each in reversed(above) if hasattr(each, _UP)), None)
        attributes[_UP] = None if value is holder else _way_up(attributes[_UP], holder)
    if _WORKING in attributes:
        attributes[_WORKING] = _way_up(attributes[_WORKING], None)
    return _entries(attributes, _inside(value, above))


def _way_up(folder: Any, holder: object) -> object:
    """Return the names from ``folder`` up, and the content of the first folder outside the tree."""
    if folder is holder:
        return "holder"
    names: list[str] = []
    passed: list[object] = []
    lost: object = None
    while folder is not None:
        if any(folder is each for each in passed):
            raise CyclicWorldError
        passed.append(folder)
        names.append(folder.name)
        up = folder.parent
        if lost is None and up is not None and up.contents.get(folder.name) is not folder:
            lost = list(folder.contents)
        folder = up
    return [names, lost]


def _inside(value: object, above: tuple[object, ...]) -> tuple[object, ...]:
    if any(value is each for each in above):
        raise CyclicWorldError
    return (*above, value)
