"""What an explorer believes of the files and folders around it, from what tools answered.

A belief may be wrong: nothing is looked up, and a call that fails says so.
"""

import json
from collections.abc import Iterator
from typing import Any, cast

from coevolve.environments.tools.filesystem.manual import Tool

Path = tuple[str, ...]
"""Folders from where the explorer began; () is there."""

PARENT = ".."


def texts(result: str) -> list[str]:
    """Return the texts in a tool's answer; empty where it is an error or no JSON object."""
    try:
        answer: object = json.loads(result)
    except ValueError:
        return []
    return list(_texts(answer))


def says_something(result: str) -> bool:
    """Whether a tool's answer tells anything but that the call was carried out."""
    try:
        answer: object = json.loads(result)
    except ValueError:
        return result not in ("", "None")
    if not isinstance(answer, dict):
        return bool(answer)
    return any(value or value == 0 for value in cast(dict[str, Any], answer).values())


def _texts(answer: object) -> Iterator[str]:
    if isinstance(answer, str):
        yield answer
    elif isinstance(answer, list):
        for each in cast(list[Any], answer):
            yield from _texts(each)
    elif isinstance(answer, dict):
        for each in cast(dict[str, Any], answer).values():
            yield from _texts(each)


def looks_like_a_file(name: str) -> bool:
    """Whether a name has an extension."""
    return "." in name.strip(".")


class Surroundings:
    """Names by folder, and the folder in which the explorer stands."""

    def __init__(self) -> None:
        self._names: dict[Path, list[str]] = {(): []}
        self.here: Path = ()

    def add(self, paths: list[str]) -> None:
        """Take in the paths that a look around answered, for instance ``./docs/plan.md``."""
        for path in paths:
            *above, name = path.removeprefix("./").split("/")
            self._add(tuple(above), name)

    def files(self) -> list[str]:
        """Return the files here."""
        return [name for name in self._names[self.here] if looks_like_a_file(name)]

    def folders(self) -> list[str]:
        """Return the folders here."""
        return [name for name in self._names[self.here] if not looks_like_a_file(name)]

    def files_in(self, folder: str) -> list[str]:
        """Return the files of a folder that is here."""
        return [name for name in self._in(folder) if looks_like_a_file(name)]

    def folders_in(self, folder: str) -> list[str]:
        """Return the folders of a folder that is here."""
        return [name for name in self._in(folder) if not looks_like_a_file(name)]

    def names(self) -> list[str]:
        """Return all names everywhere, with repeats."""
        return [name for names in self._names.values() for name in names]

    def learn(self, tool: Tool, arguments: dict[str, str]) -> None:
        """Take in what a call that succeeded has changed."""
        values = list(arguments.values())
        if tool.moves:
            self.here = self.here[:-1] if values[0] == PARENT else (*self.here, values[0])
            self._names.setdefault(self.here, [])
        if tool.makes:
            self._add(self.here, values[0])
        if tool.wants("target"):
            inside = values[1] in self.folders()
            self._add((*self.here, values[1]) if inside else self.here, values[inside - 1])
        if tool.takes_away:
            self.forget(values[0])

    def forget(self, name: str) -> None:
        """Believe no more that ``name`` is here."""
        self._names[self.here] = [each for each in self._names[self.here] if each != name]

    def _in(self, folder: str) -> list[str]:
        return self._names.get((*self.here, folder), [])

    def _add(self, folder: Path, name: str) -> None:
        names = self._names.setdefault(folder, [])
        if name not in names:
            names.append(name)
        if not looks_like_a_file(name):
            self._names.setdefault((*folder, name), [])
