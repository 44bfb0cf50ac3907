"""The content of a task's initial world: its facts, and names that a user might mention."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from coevolve.environments.tools.task import ToolTask

MAX_NAME_CHARS = 40
MAX_FACT_CHARS = 200


def facts(body: ToolTask) -> frozenset[str]:
    """Return the paths of the world and their contents; at least the names of the classes."""
    found = {f"class {name}" for name in body.classes}
    if body.long_context:
        found.add("long context")
    for path, text in _leaves(body):
        found.update("/".join(path[:depth]) for depth in range(1, len(path) + 1))
        found.add(f"{'/'.join(path)}={text}"[:MAX_FACT_CHARS])
    return frozenset(found)


def names(body: ToolTask) -> tuple[str, ...]:
    """Return the names and words of the world, each once, paths before contents."""
    found = list(_leaves(body))
    on_paths = [name for path, _ in found for name in path[1:]]
    whole = [text for _, text in found if "\n" not in text]
    words = [word for _, text in found for word in text.split()]
    every = dict.fromkeys((*on_paths, *whole, *words))
    return tuple(name for name in every if 0 < len(name) <= MAX_NAME_CHARS)


def _leaves(body: ToolTask) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every path to a leaf, with the leaf's text."""
    scenarios: dict[str, Any] = msgspec.json.decode(body.world, type=dict[str, Any])
    for name in body.classes:
        yield from _below(scenarios.get(name, {}), (name,))


def _below(node: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    match node:
        case {"type": "file", "content": str(text)}:
            yield path, text
        case dict():
            entries = cast("Mapping[str, object]", node)
            if entries.get("type") == "directory":
                yield from _below(entries.get("contents"), path)
            else:
                yield from _entries(entries, path)
        case list():
            for item in cast("Sequence[object]", node):
                yield from _below(item, path)
        case _:
            yield path, str(node)


def _entries(
    entries: Mapping[str, object], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    if not entries:
        yield path, ""
    for name, node in entries.items():
        yield from _below(node, (*path, name))
