"""Runs blocks of code on a task, in the interpreter and the engine together."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from coevolve.environments.appworld.engines import Opened, World
from coevolve.environments.appworld.interpreter import Interpreter, Settings
from coevolve.environments.appworld.own import task_ids, template_names
from coevolve.environments.appworld.session import interpreter_settings
from coevolve.environments.sandbox.runner import Sandbox

TEMPLATES = ("without-a-genre", "songs-as-a-note", "later-alarm")


def settings(opened: Opened, output_chars: int = 20_000) -> Settings:
    made = interpreter_settings(opened, block_s=100.0, memory_mb=1024)
    return dataclasses.replace(made, output_chars=output_chars)


def observations(
    sandbox: Sandbox, world: World, blocks: Sequence[str], output_chars: int = 20_000
) -> list[str]:
    interpreter = Interpreter(sandbox, settings(world.opened, output_chars))
    try:
        return [interpreter.run(block, world.call) for block in blocks]
    finally:
        interpreter.close()


def tasks(data: Path) -> list[str]:
    known = template_names(data)
    assert set(TEMPLATES) <= set(known)
    return list(task_ids(TEMPLATES, 1))


def reference(data: Path, task: str) -> list[str]:
    return json.loads((data / "tasks" / task / "reference.json").read_text())
