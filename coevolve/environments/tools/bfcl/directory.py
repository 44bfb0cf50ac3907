"""Where the working directory of BFCL's file system lies in the tree.

What it calls itself by, ``pwd``, does not say it: ``cp`` and ``mv`` of a folder leave what it holds
with the old way up, so several folders of a tree may go by the same path, and one that is no longer
in the tree keeps its own.
"""

from typing import Any


def places(system: Any) -> set[tuple[str, ...]]:
    """Return every path from the root to the working directory; none where it is not in the tree.

    The tree has an end: see `tools.weight`.
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
    """Return the path by which the file system calls its working directory."""
    return system.pwd()["current_working_directory"]
