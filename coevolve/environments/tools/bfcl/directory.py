"""Finds the place of the working directory in the tree of BFCL's file system.

Its ``pwd`` does not determine the place: when ``cp`` or ``mv`` copies a folder, the folder's
content keeps its old parent. So several folders of a tree may have the same path, and a folder that
is no longer in the tree keeps its path.
"""

from typing import Any


def places(system: Any) -> set[tuple[str, ...]]:
    """Return every path from the root to the working directory; none if it is not in the tree.

    The walk ends because `tools.weight` refuses endless trees.
    """
    found: set[tuple[str, ...]] = set()
    left: list[tuple[Any, tuple[str, ...]]] = [(system.root, ())]
    while left:
        folder, path = left.pop()
        if folder is system._current_dir:
            found.add(path)
        left += [
            (item, (*path, name))
            for name, item in folder.contents.items()
            if hasattr(item, "contents")
        ]
    return found


def working_directory(system: Any) -> str:
    """Return the path that the file system gives for its working directory."""
    return system.pwd()["current_working_directory"]
