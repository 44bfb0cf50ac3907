"""Weighs a world, to bound the CPU time and the memory of a call before it is made.

A walk over the whole world adds ``VALUE_WEIGHT`` for each value and one for each character of a
text; a value in a folder also adds the length of its path. A value that several places share counts
at each of them, because printing and comparing visit it each time: folders that contain one another
take hardly any memory, yet walking them may never end. The weight is the same on every machine.
"""

from typing import Any, cast

VALUE_WEIGHT = 64

MAX_WEIGHT = 600_000
"""The heaviest world of the benchmark's own references weighs 93,456."""

MAX_FOLDERS = 60
"""Maximum depth of folders. Python cannot compare trees of some hundreds."""


class OverweightError(Exception):
    """A world is heavier or deeper than allowed."""


def weigh(state: Any, *, has_folders: bool = False) -> int:
    """Return the weight of a state; its objects may be BFCL's files and folders.

    Raises:
        OverweightError: The weight exceeds ``MAX_WEIGHT``, or folders are nested deeper than
            ``MAX_FOLDERS``, as they are in a folder that holds itself.
    """
    total = 0
    left: list[tuple[Any, int, int]] = [(state, 0, 0)]
    while left:
        value, path, folders = left.pop()
        total += VALUE_WEIGHT
        match value:
            case str():
                total += len(value)
            case int():
                total += value.bit_length()
            case dict():
                entries = cast("dict[Any, Any]", value)
                left += [(each, path, folders) for pair in entries.items() for each in pair]
            case list() | tuple() | set():
                items = cast("list[Any]", value)
                left += [(each, path, folders) for each in items]
            case _ if has_folders and hasattr(value, "contents"):
                path, folders = (path, folders) if folders else _way_up(value)
                total += path
                left += [
                    (each, path + len(name) + 1, folders + 1)
                    for name, each in value.contents.items()
                ]
            case _ if has_folders and hasattr(value, "content"):
                total += path
                left.append((value.content, path, folders))
            case _:
                pass
        if total > MAX_WEIGHT or folders > MAX_FOLDERS:
            raise OverweightError
    return total


def _way_up(folder: Any) -> tuple[int, int]:
    """Return the length of the path to a folder, and the number of folders on it."""
    path = folders = 0
    while folder is not None and folders <= MAX_FOLDERS:
        path += len(folder.name) + 1
        folders += 1
        folder = folder.parent
    return path, folders
