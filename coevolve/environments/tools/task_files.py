"""Reads tasks of your own: JSON lines, a parquet file, or a folder that `datasets` saved.

A line is a task:

| field    | content                                                                              |
|----------|--------------------------------------------------------------------------------------|
| `id`     | a name, unique in the file                                                           |
| `world`  | the argument of ``reset``, any JSON value; optional                                  |
| `turns`  | one or more `{instruction, reference}`; `reference` is a list of Python call         |
|          | expressions with literal arguments, such as `put(key='a', value='1')`                |
| `split`  | `train` or `held_out`; by default the world decides, with ``environment.split_seed`` |

In a folder of several `datasets`, the name of each gives the split; ``test`` is held out.

For tasks without a world, the instructions decide: two tasks with the same instructions are on the
same side of the split.
Further fields are kept for the class's own ``reward``. In parquet and `datasets`, `world` may be
JSON text, because columns have one type.
"""

import codecs
import hashlib
import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

import msgspec

from coevolve.dependencies import require
from coevolve.environments.foreign import told
from coevolve.environments.tools.task import ToolTask, ToolTurn
from coevolve.foreign import bytes_of, check_values, opened, values_in
from protocols.errors import ConfigError
from protocols.tasks import Seeded, Split, Task, body_of

MOST_BYTES = 1 << 28
"""Maximum bytes of all tasks as JSON; compressed ones unfold to any size."""

MOST_VALUES = 1 << 23
"""Maximum values in them, whose memory does not depend on their bytes. Natural text has a comma,
and a world has a value, in some thirty bytes."""

BATCH_ROWS = 64
"""Rows of a parquet file that are unfolded at a time."""

FORMATS = "a file of JSON lines, a parquet file or a folder of datasets"

TASK = "{id, world, turns: [{instruction, reference: [call, ...]}], split: train or held_out}"

MOST_FAULTS = 5
"""Maximum number of bad lines that an error lists."""

SPLITS: Mapping[str, Split] = {"test": "held_out"}
"""Name of a split in `datasets` -> its name in a task, if they differ."""


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
        rows = list(_bounded(_rows(path)))
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


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.is_dir():
        yield from _dataset(path)
    elif path.suffix == ".parquet":
        yield from _parquet(path)
    else:
        yield from _json_lines(path)


def _bounded(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows. Raises ValueError for more than `MOST_BYTES` or `MOST_VALUES` in all."""
    size = values = 0
    for row in rows:
        document = msgspec.json.encode(row)
        size, values = size + len(document), values + values_in(document)
        if size > MOST_BYTES:
            raise ValueError(f"it needs at most {MOST_BYTES} bytes of tasks as JSON, found more")
        if values > MOST_VALUES:
            raise ValueError(f"it needs at most {MOST_VALUES} values in all tasks, found more")
        yield row


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of the lines. Raises ConfigError, which names the first bad lines."""
    content = bytes_of(path, MOST_BYTES)
    check_values(content, MOST_VALUES)
    lines = content.removeprefix(codecs.BOM_UTF8).split(b"\n")
    faults: list[str] = []
    for number, line in enumerate(lines, start=1):
        array = "; write each task of a JSON array on its own line" if line[:1] == b"[" else ""
        try:
            if line.strip():
                with told(f"{path}:{number}: needs one JSON object per line, in UTF-8", array):
                    yield msgspec.json.decode(line, type=dict[str, Any])
        except ConfigError as error:
            faults.append(f"{error}")
    if faults:
        more = [f"{len(faults) - MOST_FAULTS} more lines"] if len(faults) > MOST_FAULTS else []
        raise ConfigError("\n".join([*faults[:MOST_FAULTS], *more]))


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    parquet = _needed("pyarrow.parquet", "pyarrow")
    with open(path, "rb", opener=opened) as source, parquet.ParquetFile(source) as file:
        groups = (file.metadata.row_group(number) for number in range(file.num_row_groups))
        _check_unfolded(list(groups))
        batches = file.iter_batches(batch_size=BATCH_ROWS)
        yield from _with_worlds(row for batch in batches for row in batch.to_pylist())


def _check_unfolded(groups: Sequence[Any]) -> None:
    """Refuse groups of rows that unfold to too much, by what their heads say. Raises ValueError."""
    size = sum(group.total_byte_size for group in groups)
    if size > MOST_BYTES:
        raise ValueError(f"it needs at most {MOST_BYTES} bytes, found {size} unfolded")
    columns = (group.column(number) for group in groups for number in range(group.num_columns))
    values = sum(column.num_values for column in columns)
    if values > MOST_VALUES:
        raise ValueError(f"it needs at most {MOST_VALUES} values in all tasks, found {values}")


def _dataset(path: Path) -> Iterator[dict[str, Any]]:
    datasets = _needed("datasets", "datasets")
    found = datasets.load_from_disk(str(path))
    if not isinstance(found, dict):
        yield from _with_worlds(found)
        return
    for name, part in cast("dict[str, Any]", found).items():
        yield from ({"split": SPLITS.get(name, name)} | row for row in _with_worlds(part))


def _with_worlds(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(rows, start=1):
        present = {name: value for name, value in row.items() if value is not None}
        if isinstance(world := present.get("world"), str):
            with told(f"environment.tasks: world of row {number} has to be JSON text"):
                present["world"] = msgspec.json.decode(world)
        yield present


def _needed(module: str, package: str) -> Any:
    require(package, "environment.tasks: reading this format", f"pip install {package}")
    return importlib.import_module(module)


def _line(row: dict[str, Any], place: str) -> TaskLine:
    for name in TaskLine.__struct_fields__:
        slips = [each for each in row if each != name and sorted(each.lower()) == sorted(name)]
        if slips and name not in row:
            raise ConfigError(f"{place}: has a field {slips[0]!r}; did you mean {name!r}?")
    line = msgspec.convert(row, TaskLine)
    if not line.turns:
        raise ConfigError(f"{place}: needs at least one turn, found none")
    return line


def _sides(lines: Sequence[TaskLine], seed: int, share: float) -> dict[str, Split]:
    """Return the split of each task by id: its own field, or decided by its world or instructions.

    A world is held out if its digest is in the lowest share of all possible digests, so it keeps
    its side when tasks are added. In a small file this may give none or all; then the lowest digest
    is held out, or the highest is not.
    """
    places = {line.id: _place(_content(line), seed) for line in lines if line.split is None}
    ordered = sorted(set(places.values()))
    border = share * 2**64
    if len(ordered) > 1:
        border = min(max(border, ordered[0] + 1), ordered[-1])
    sides: dict[str, Split] = {
        task_id: "held_out" if place < border else "train" for task_id, place in places.items()
    }
    sides |= {line.id: line.split for line in lines if line.split is not None}
    return sides


def _check_sides(path: Path, split: Mapping[str, Split]) -> None:
    """Refuse tasks that are all on one side. Raises ConfigError."""
    if set(split.values()) != set(get_args(Split)):
        side = next(iter(split.values()))
        raise ConfigError(
            f"{path}: needs tasks of both splits, but all {len(split)} are {side}; without a "
            "field split, the world or the instructions decide: add tasks with a different one, or "
            "write split: train or held_out in each task"
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
