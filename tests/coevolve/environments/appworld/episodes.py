"""Runs blocks of code on a task, in the interpreter and the engine together."""

import json
from collections.abc import Sequence
from pathlib import Path

from coevolve.environments.appworld.engines import Opened, World
from coevolve.environments.appworld.interpreter import Interpreter, Settings
from coevolve.environments.appworld.place import interpreter_folder, plain_python
from coevolve.environments.sandbox.runner import Sandbox


def settings(opened: Opened, output_chars: int = 20_000) -> Settings:
    return Settings(
        python=plain_python(),
        apps=opened.apps,
        now=opened.now,
        modules=opened.modules,
        functions=opened.functions,
        folders=(interpreter_folder(),),
        output_chars=output_chars,
    )


def observations(
    sandbox: Sandbox, world: World, blocks: Sequence[str], output_chars: int = 20_000
) -> list[str]:
    interpreter = Interpreter(sandbox, settings(world.opened, output_chars))
    try:
        return [interpreter.run(block, world.call) for block in blocks]
    finally:
        interpreter.close()


def tasks(data: Path) -> list[str]:
    return (data / "datasets" / "own.txt").read_text().split()


def reference(data: Path, task: str) -> list[str]:
    return json.loads((data / "tasks" / task / "reference.json").read_text())
