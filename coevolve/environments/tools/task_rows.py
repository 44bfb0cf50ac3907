"""Reads rows of tasks: JSON lines, also compressed by gzip, parquet, or folders of `datasets`.

In a folder of several `datasets`, the name of each gives the split (`SIDES`), unless its rows do.

In parquet and `datasets` a column has one type. If it has structs, every row has the keys of all
rows, and null stands for those that it had not. So a world with a null is refused there: write
`world` as JSON text, or as `datasets.Json`. A null elsewhere counts as an absent field; only inside
of further fields it stays.
"""

import codecs
import gzip
import importlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from coevolve.base.dependencies import require
from coevolve.base.foreign import bytes_of, check_values, opened, values_in
from coevolve.base.user_code import told
from protocols.errors import ConfigError
from protocols.tasks import Split

MOST_BYTES = 1 << 28
"""Maximum bytes of all tasks as JSON; compressed ones unfold to any size."""

MOST_VALUES = 1 << 23
"""Maximum values in them, whose memory does not depend on their bytes. Natural text has a comma,
and a world has a value, in some thirty bytes."""

BATCH_ROWS = 64
"""Rows of a parquet file that are unfolded at a time."""

FORMATS = "a file of JSON lines, a parquet file or a folder of datasets"

MOST_FAULTS = 5
"""Maximum number of bad lines that an error lists."""

PARQUET = (".parquet", ".pq")
"""Endings of the names of parquet files, in lower case."""

GZIP = b"\x1f\x8b"
"""The first bytes of a compressed file, whatever its name."""

WORLD, SPLIT, TURNS = "world", "split", "turns"

SIDES: Mapping[str, Split] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("test", "testing", "validation", "valid", "val", "dev"), "held_out"),
    **dict.fromkeys(("eval", "evaluation", "held_out", "heldout", "holdout"), "held_out"),
}
"""Name of a split in `datasets`, in lower case -> its name in a task."""


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file or folder, at most `MOST_BYTES` and `MOST_VALUES` in all.

    Raises:
        ConfigError: A row is no object of JSON, or its world is not what was written.
        DependencyError: The package that reads the format is not installed.
        ValueError: There is more.
    """
    size = values = 0
    for row in _rows(path):
        document = msgspec.json.encode(row)
        size, values = size + len(document), values + values_in(document)
        if size > MOST_BYTES:
            raise ValueError(f"it needs at most {MOST_BYTES} bytes of tasks as JSON, found more")
        if values > MOST_VALUES:
            raise ValueError(f"it needs at most {MOST_VALUES} values in all tasks, found more")
        yield row


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.is_dir():
        yield from _dataset(path)
    elif path.suffix.lower() in PARQUET:
        yield from _parquet(path)
    else:
        yield from _json_lines(path)


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of the lines. Raises ConfigError, which names the first bad lines."""
    content = _unfolded(bytes_of(path, MOST_BYTES))
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


def _unfolded(content: bytes) -> bytes:
    """Return what gzip compressed. Raises ValueError if it is too much, OSError if it is broken."""
    if not content.startswith(GZIP):
        return content
    with gzip.open(io.BytesIO(content)) as file:
        unfolded = file.read(MOST_BYTES + 1)
    if len(unfolded) > MOST_BYTES:
        raise ValueError(f"it needs at most {MOST_BYTES} bytes, found more unfolded")
    return unfolded


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    parquet = _needed("pyarrow.parquet", "pyarrow")
    with open(path, "rb", opener=opened) as source, parquet.ParquetFile(source) as file:
        groups = (file.metadata.row_group(number) for number in range(file.num_row_groups))
        _check_unfolded(list(groups))
        batches = file.iter_batches(batch_size=BATCH_ROWS)
        rows = (row for batch in batches for row in batch.to_pylist(maps_as_pydicts="strict"))
        yield from _as_written(rows, file.schema_arrow, f"{path}")


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
        yield from _as_written(found, found.features.arrow_schema, f"{path}")
        return
    for name, part in cast("dict[str, Any]", found).items():
        side = SIDES.get(name.lower().replace("-", "_"))
        for row in _as_written(part, part.features.arrow_schema, f"{path / name}"):
            yield ({SPLIT: side} if side else _with_side(row, path, name)) | row


def _with_side(row: dict[str, Any], path: Path, name: str) -> dict[str, Any]:
    """Return a row of a dataset with another name. Raises ConfigError if the row has no split."""
    if SPLIT not in row:
        raise ConfigError(
            f"{path}: the split of a dataset has to be called {', '.join(SIDES)}, found {name!r}; "
            f"rename it, or give its tasks a field {SPLIT}: train or held_out"
        )
    return row


def _as_written(
    rows: Iterable[dict[str, Any]], schema: Any, place: str
) -> Iterator[dict[str, Any]]:
    """Yield the rows without what their common schema has added."""
    has_structs = WORLD in schema.names and _has_structs(schema.field(WORLD).type)
    for number, row in enumerate(rows, start=1):
        present = {name: value for name, value in row.items() if value is not None}
        world = present.get(WORLD)
        if isinstance(world, str):
            with told(f"{place}, row {number}: world has to be JSON text"):
                present[WORLD] = msgspec.json.decode(world)
        elif has_structs and (key := _null_in(world, WORLD)):
            raise ConfigError(
                f"{place}, row {number}: needs a world as it was written, but {key} is null, and a "
                "column of structs gives each row the keys of all rows, as null; write world as "
                "JSON text"
            )
        if isinstance(turns := present.get(TURNS), list):
            present[TURNS] = [_present(turn) for turn in cast("list[Any]", turns)]
        yield present


def _present(turn: Any) -> Any:
    if not isinstance(turn, dict):
        return turn
    fields = cast("dict[str, Any]", turn)
    return {name: value for name, value in fields.items() if value is not None}


def _has_structs(kind: Any) -> bool:
    """Return whether a type of pyarrow has a struct in it."""
    types = importlib.import_module("pyarrow").types
    inner = [kind.field(number).type for number in range(kind.num_fields)]
    return types.is_struct(kind) or any(map(_has_structs, inner))


def _null_in(value: Any, place: str) -> str:
    """Return where a value has a null or NaN, which tables write for it; empty for nowhere."""
    match value:
        case dict():
            items = cast("dict[str, Any]", value).items()
            inner = (_null_in(each, f"{place}.{name}") for name, each in items)
        case list():
            items = enumerate(cast("list[Any]", value))
            inner = (_null_in(each, f"{place}[{number}]") for number, each in items)
        case _:
            return place if value is None or value != value else ""
    return next(filter(None, inner), "")


def _needed(module: str, package: str) -> Any:
    require(package, "environment.tasks: reading this format", f"pip install {package}")
    return importlib.import_module(module)
