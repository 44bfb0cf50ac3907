"""Digests of the whole state of a world: equal for equal worlds, in every process.

The digest covers everything that the simulators hold, private attributes included: the working
directory, the state of random generators, caches. As in the simulators' own comparison, the order
of a dict's entries does not matter, numbers compare by value, and a tree that shares its files
equals a tree with copies. Two things differ from a plain walk over attributes:

- if a folder's parent is not the folder that holds it, the digest uses the names of the folders
above it instead of the parent;
- a file's time of last change is left out, because it depends on the wall clock.

For an object that is no plain value and has no attributes, the digest covers its pickled parts.
"""

import hashlib
import random
from collections.abc import Iterable, Mapping
from types import FunctionType
from typing import Any, cast

from protocols.errors import SimulatorError

DIGEST_BYTES = 16

DEFINE_STATE = "define state(), which returns what to compare"

_CLOCK = "_last_modified"
_UP = "parent"
_HELD = "contents"
_PICKLED = 4
"""The last pickle protocol in which arrays are bytes."""
_WORKING = "_current_dir"


class CyclicWorldError(Exception):
    """The world contains itself, so a walk over it would never end."""


def digest(instances: Mapping[str, Any]) -> str:
    """Return the digest of a world's simulators, by class; empty if the world is cyclic.

    Raises:
        SimulatorError: A simulator holds an object that this module cannot digest.
    """
    try:
        return _digest(_parts(dict(instances), ())).hex()
    except (CyclicWorldError, RecursionError):
        return ""


def text_digest(text: str) -> str:
    """Return a short digest of a text: equal for equal texts, in every process."""
    return _digest((text.encode("utf-8", "surrogatepass"),)).hex()


def _digest(parts: Iterable[bytes]) -> bytes:
    """Return the digest of ``parts``; the length of each separates it from the next."""
    hashed = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        hashed.update(len(part).to_bytes(8, "little"))
        hashed.update(part)
    return hashed.digest()


def _parts(value: object, above: tuple[object, ...]) -> tuple[bytes, ...]:
    """Return bytes that identify ``value``; ``above`` are its containers, outermost first."""
    match value:
        case None | str():
            return type(value).__name__.encode(), str(value).encode("utf-8", "surrogatepass")
        case bool() | int():
            return b"number", hex(value).encode()
        case float():
            text = hex(int(value)) if value.is_integer() else value.hex()
            return b"number", text.encode()
        case bytes():
            return b"bytes", value
        case random.Random():
            return b"random", repr(value.getstate()).encode()
        case list() | tuple():
            items = cast("list[object] | tuple[object, ...]", value)
            inside = _inside(items, above)
            name = type(cast("object", value)).__name__.encode()
            return name, *(_digest(_parts(item, inside)) for item in items)
        case set() | frozenset():
            members = cast("set[object] | frozenset[object]", value)
            return b"set", *sorted(_digest(_parts(member, above)) for member in members)
        case dict():
            return b"dict", *_entries(cast("dict[object, object]", value), above)
        case _:
            return _object(value, above)


def _entries(entries: Mapping[Any, object], above: tuple[object, ...]) -> list[bytes]:
    inside = _inside(entries, above)
    return sorted(
        _digest((*_parts(key, inside), *_parts(entry, inside))) for key, entry in entries.items()
    )


def _object(value: object, above: tuple[object, ...]) -> tuple[bytes, ...]:
    if isinstance(value, type | FunctionType):
        return b"code", f"{value.__module__}.{value.__qualname__}".encode()
    if not hasattr(value, "__dict__"):
        return b"reduced", *_entries(_pickle_parts(value), _inside(value, above))
    attributes = {name: held for name, held in vars(value).items() if name != _CLOCK}
    if _UP in attributes and _HELD in attributes:
        holder = next((each for each in reversed(above) if hasattr(each, _UP)), None)
        attributes[_UP] = None if value is holder else _way_up(attributes[_UP], holder)
    if _WORKING in attributes:
        attributes[_WORKING] = _way_up(attributes[_WORKING], None)
    entries = _entries(attributes, _inside(value, above))
    return type(value).__name__.encode(), *entries


def _pickle_parts(value: object) -> dict[str, object]:
    """Return the parts that pickle gives for ``value``, such as a date, slots or an array."""
    try:
        made = value.__reduce_ex__(_PICKLED)
    except Exception as error:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise SimulatorError(
            f"the tools hold a {kind}, which cannot be compared; {DEFINE_STATE}"
        ) from error
    if isinstance(made, str):
        return {made: None}
    maker, given, *rest = made
    name = f"{maker.__module__}.{maker.__qualname__}"
    parts: dict[str, object] = {name: given}
    return parts | {str(n): list(e) if n else e for n, e in enumerate(rest) if e}


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
