"""Reads tasks of your own from the rows of a file or folder (`tools.task_rows`).

A row is a task:

| field    | content                                                                              |
|----------|--------------------------------------------------------------------------------------|
| `id`     | a name, unique in the file                                                           |
| `world`  | the argument of ``reset``, any JSON value; optional                                  |
| `turns`  | one or more `{instruction, reference}`; `reference` is a list of Python call         |
|          | expressions with literal arguments, such as `put(key='a', value='1')`                |
| `split`  | `train` or `held_out`; by default the world decides, with ``environment.split_seed`` |

For tasks without a world, the instructions decide: two tasks with the same instructions are on the
same side of the split.
Further fields are kept for the class's own ``reward``.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec

from coevolve.base.user_code import told
from coevolve.environments.findings import counted
from coevolve.environments.tools.split_tasks import held_out_places
from coevolve.environments.tools.task import ToolTask, ToolTurn
from coevolve.environments.tools.task_rows import FORMATS, rows_of
from protocols.errors import ConfigError
from protocols.tasks import Seeded, Split, Task, body_of

TASK = "{id, world, turns: [{instruction, reference: [call, ...]}], split: train or held_out}"


class TurnLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One turn of a task line."""

    instruction: str
    reference: tuple[str, ...] = ()


class TaskLine(msgspec.Struct, frozen=True, kw_only=True):
    """One task of a file."""

    id: str
    turns: tuple[TurnLine, ...]
    world: Any = None
    split: Split | None = None


def read_tasks(
    path: Path, tool_set: str, *, split_seed: int, held_out_share: float
) -> tuple[Task, ...]:
    """Return the tasks of the file or folder ``path``, for the tools of ``tool_set``.

    Raises:
        ConfigError: There is no such file, or a line is not a valid task; the message names the
        line.
        DependencyError: The package that reads the format is not installed.
    """
    with told(f"environment.tasks: {path} has to be {FORMATS}, but cannot be read"):
        rows = list(rows_of(path))
    lines: dict[str, tuple[TaskLine, dict[str, Any]]] = {}
    for number, row in enumerate(rows, start=1):
        place = f"{path}, task {number}"
        with told(f"{place} has to be {TASK}"):
            line = _line(row, place)
        if line.id in lines:
            raise ConfigError(f"{place}: needs an id of its own, but {line.id!r} occurs before")
        lines[line.id] = line, row
    if not lines:
        raise ConfigError(f"{path}: needs at least one task, found none")
    with told(f"{path} needs tasks that can be written as JSON"):
        split = _sides([line for line, _ in lines.values()], split_seed, held_out_share)
        _check_sides(path, split)
        return tuple(
            _task(line, row, tool_set, split[line.id], path.name) for line, row in lines.values()
        )


def _line(row: dict[str, Any], place: str) -> TaskLine:
    for name in TaskLine.__struct_fields__:
        slips = [each for each in row if each != name and _is_slip(each.lower(), name)]
        if slips and name not in row:
            raise ConfigError(f"{place}: has a field {slips[0]!r}; did you mean {name!r}?")
    line = msgspec.convert(row, TaskLine)
    if not line.id.strip():
        raise ConfigError(f"{place}: needs an id, found {line.id!r}; give it a name of its own")
    if not line.turns:
        raise ConfigError(f"{place}: needs at least one turn, found none")
    for number, turn in enumerate(line.turns, start=1):
        if not turn.instruction.strip():
            raise ConfigError(
                f"{place} ({line.id}): needs an instruction in turn {number}, found "
                f"{turn.instruction!r}; write what the user asks"
            )
    return line


def _is_slip(found: str, name: str) -> bool:
    return sorted(found) == sorted(name) or found.removesuffix("s") == name.removesuffix("s")


def _sides(lines: Sequence[TaskLine], seed: int, share: float) -> dict[str, Split]:
    """Return the split of each task by id: its own field, or decided by its world or instructions.

    Of the worlds of tasks without the field, exactly the share is held out.
    """
    places = {line.id: _place(_content(line), seed) for line in lines if line.split is None}
    decided: set[Split] = {line.split for line in lines if line.split is not None}
    held_out = held_out_places(places.values(), share, decided=decided)
    sides: dict[str, Split] = {
        task_id: "held_out" if place in held_out else "train" for task_id, place in places.items()
    }
    sides |= {line.id: line.split for line in lines if line.split is not None}
    return sides


def _check_sides(path: Path, split: Mapping[str, Split]) -> None:
    """Refuse tasks that are all on one side. Raises ConfigError."""
    if set(split.values()) != set(get_args(Split)):
        side = next(iter(split.values()))
        raise ConfigError(
            f"{path}: needs tasks of both splits, found {counted(len(split), f'{side} task')} and "
            "no other; without a field split, the world or the instructions decide: add tasks with "
            "a different one, or write split: train or held_out in each task"
        )


def _content(line: TaskLine) -> Any:
    """Return the content that must not appear on both sides."""
    if line.world is not None:
        return line.world
    return [turn.instruction for turn in line.turns]


def _place(content: Any, seed: int) -> int:
    """Return the position of a world among all digests, 0 <= place < 2**64."""
    content = msgspec.json.encode(content, order="deterministic")
    salt = seed.to_bytes(hashlib.blake2b.SALT_SIZE)
    return int.from_bytes(hashlib.blake2b(content, digest_size=8, salt=salt).digest())


def _task(line: TaskLine, row: dict[str, Any], tool_set: str, split: Split, file: str) -> Task:
    extra = {name: each for name, each in row.items() if name not in TaskLine.__struct_fields__}
    return Task(
        task_id=line.id,
        split=split,
        origin=Seeded(source=f"{file}:{line.id}"),
        skills=tuple(_tools(turn) for turn in line.turns),
        body=body_of(
            ToolTask(
                classes=(tool_set,),
                world=msgspec.json.encode({tool_set: line.world}).decode(),
                turns=tuple(
                    ToolTurn(instruction=turn.instruction, reference=turn.reference)
                    for turn in line.turns
                ),
                extra=msgspec.json.encode(extra).decode() if extra else "",
            )
        ),
    )


def _tools(turn: TurnLine) -> str:
    return "+".join(call.partition("(")[0].strip() for call in turn.reference) or "none"
