"""Plain classes with tasks, and what the cheap adversary finds in them."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coevolve.environments.registry import environment_named
from coevolve.environments.tools.adversary.found import Named
from coevolve.environments.tools.own import OwnTools

NUMBERS = itertools.count()

Case = tuple[str, Sequence[dict[str, Any]]]
"""A class, and the lines of its task file."""


def tasks_of(
    *made: tuple[Any, str, Sequence[str]], **fields: Sequence[Any]
) -> list[dict[str, Any]]:
    """Return a task for each world, instruction and reference, with its own field of each name."""
    return [
        {
            "id": f"task-{number}",
            "world": world,
            "turns": [{"instruction": instruction, "reference": list(reference)}],
            "split": "train" if number < len(made) // 2 else "held_out",
            **{name: values[number] for name, values in fields.items()},
        }
        for number, (world, instruction, reference) in enumerate(made)
    ]


def made(folder: Path, source: str, tasks: Sequence[dict[str, Any]], **settings: Any) -> OwnTools:
    """Return the environment of a class, written into a folder of the import path."""
    name = f"adversary_{next(NUMBERS)}"
    (folder / f"{name}.py").write_text(source)
    (folder / "tasks.jsonl").write_text("".join(f"{json.dumps(task)}\n" for task in tasks))
    use = f"{name}:Env"
    found = environment_named(use, tasks=str(folder / "tasks.jsonl"), **settings)
    assert isinstance(found, OwnTools)
    return found


def adversary_of(folder: Path, source: str, tasks: Sequence[dict[str, Any]]) -> Named:
    """Return what the adversary finds."""
    found = made(folder, source, tasks, unearned="keep").source().adversary
    assert found is not None
    return found
