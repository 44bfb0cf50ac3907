"""Simulators in this process, for drawing tasks and for walks."""

from collections.abc import Sequence
from typing import Any

from coevolve.environments.tools.bfcl.directory import working_directory
from coevolve.environments.tools.filesystem.slots import Place
from coevolve.environments.tools.session import World
from coevolve.environments.tools.task import ToolTask

CLASS = "GorillaFileSystem"


def open_world(world: str) -> World:
    """Return a new simulator in the state ``world``."""
    return World(ToolTask(classes=(CLASS,), world=world, turns=()))


def carry_out(world: World, calls: Sequence[str]) -> tuple[str, ...] | None:
    """Return the answers as BFCL's executor prints them; None if one of them is an error."""
    observed = [world.call(call) for call in calls]
    if any(each.failed for each in observed):
        return None
    return tuple(each.result for each in observed)


def look_around(world: World) -> Place:
    """Return the files and folders at and below the working directory."""
    path = working_directory(world.instances[CLASS]).split("/")[2:]
    folder = world.instances[CLASS].root
    for name in path:
        folder = folder.contents[name]
    return _place(folder, has_parent=bool(path))


def _place(folder: Any, *, has_parent: bool) -> Place:
    files: dict[str, str] = {}
    folders: dict[str, Place] = {}
    for name, item in folder.contents.items():
        if hasattr(item, "contents"):
            folders[name] = _place(item, has_parent=True)
        else:
            files[name] = item.content
    return Place(files=files, folders=folders, has_parent=has_parent)
