"""A file system in this process: carries out reference calls and shows what is there."""

import ast
import json
from collections.abc import Sequence
from typing import Any, cast

from bfcl_eval.eval_checker.multi_turn_eval.func_source_code.gorilla_file_system import (  # pyright: ignore[reportMissingTypeStubs]
    Directory,
    File,
    GorillaFileSystem,
)

from coevolve.tiny.slots import Place


class Simulated:
    """One fresh world of BFCL's ``GorillaFileSystem``."""

    def __init__(self, world: str) -> None:
        self._system = GorillaFileSystem()
        scenario = json.loads(world)["GorillaFileSystem"]
        self._system._load_scenario(scenario)  # pyright: ignore the class has no other door

    def carry_out(self, calls: Sequence[str]) -> tuple[str, ...] | None:
        """Return the answers, as BFCL's executor prints them; None where one is an error."""
        answers: list[str] = []
        for call in calls:
            answer = self._answer(call)
            if isinstance(answer, dict) and "error" in answer:
                return None
            answers.append(json.dumps(answer) if isinstance(answer, dict) else str(answer))
        return tuple(answers)

    def place(self) -> Place:
        """Return what the user sees from the current folder."""
        path = self._system.pwd()["current_working_directory"].split("/")[2:]
        folder = self._system.root
        for name in path:
            folder = cast(Directory, folder.contents[name])
        return _look(folder, has_parent=bool(path))

    def _answer(self, call: str) -> Any:
        parsed = cast(ast.Call, ast.parse(call, mode="eval").body)
        method = getattr(self._system, cast(ast.Name, parsed.func).id)
        return method(**{str(word.arg): ast.literal_eval(word.value) for word in parsed.keywords})


def _look(folder: Directory, *, has_parent: bool) -> Place:
    below = {n: item for n, item in folder.contents.items() if isinstance(item, Directory)}
    return Place(
        files={n: item.content for n, item in folder.contents.items() if isinstance(item, File)},
        folders={name: _look(item, has_parent=True) for name, item in below.items()},
        has_parent=has_parent,
    )
