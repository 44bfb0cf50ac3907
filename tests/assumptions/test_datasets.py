"""Facts about pyarrow and Hugging Face `datasets`."""

import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq

ROWS: list[dict[str, Any]] = [{"world": {"a": "1"}}, {"world": {"b": "2"}}]
UNITED = [{"world": {"a": "1", "b": None}}, {"world": {"a": None, "b": "2"}}]


def test_a_column_of_structs_gives_each_row_all_keys(tmp_path: Path) -> None:
    """A struct column of pyarrow has one set of keys, and null for those that a row had not.

    Needed by: coevolve/environments/tools/task_rows.py
    """
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "t.parquet")
    assert pq.read_table(tmp_path / "t.parquet").to_pylist() == UNITED


def test_a_dataset_gives_each_row_all_keys(tmp_path: Path) -> None:
    """A dataset of rows whose dicts have different keys gives each row all of them, as null.

    Needed by: coevolve/environments/tools/task_rows.py
    """
    datasets.Dataset.from_list(ROWS).save_to_disk(str(tmp_path))
    assert list(datasets.load_from_disk(str(tmp_path))) == UNITED


def test_a_json_column_keeps_each_row(tmp_path: Path) -> None:
    """A column of `datasets.Json` gives each row its own keys, and its Arrow type is no struct.

    Needed by: coevolve/environments/tools/task_rows.py
    """
    features = datasets.Features({"world": datasets.Json()})
    rows = [*ROWS, {"world": {"a": None}}]
    datasets.Dataset.from_list(rows, features=features).save_to_disk(str(tmp_path))
    found: Any = datasets.load_from_disk(str(tmp_path))
    assert list(found) == rows
    kind = found.features.arrow_schema.field("world").type
    assert not pa.types.is_struct(kind)
    assert kind.num_fields == 0


def test_a_json_column_of_parquet_is_text(tmp_path: Path) -> None:
    """Pyarrow reads a parquet column of Arrow's JSON type as the text of each value.

    Needed by: coevolve/environments/tools/task_rows.py
    """
    column = pa.array([json.dumps(row["world"]) for row in ROWS], pa.json_())
    pq.write_table(pa.table({"world": column}), tmp_path / "t.parquet")
    (first, _) = pq.read_table(tmp_path / "t.parquet").to_pylist()
    assert first == {"world": '{"a": "1"}'}


def test_a_map_is_a_list_of_pairs_unless_it_is_asked_for() -> None:
    """The method to_pylist gives a map as pairs, and as a dict with maps_as_pydicts.

    Needed by: coevolve/environments/tools/task_rows.py
    """
    maps = pa.map_(pa.string(), pa.int64())
    table = pa.table({"world": pa.array([[("a", 1)]], maps)})
    assert table.to_pylist() == [{"world": [("a", 1)]}]
    assert table.to_pylist(maps_as_pydicts="strict") == [{"world": {"a": 1}}]


def test_the_parts_of_a_type_say_whether_a_struct_is_in_it() -> None:
    """The fields of a nested Arrow type reach each struct in it, in lists and in maps.

    Needed by: coevolve/environments/tools/task_rows.py
    """
    struct = pa.struct([("a", pa.int64())])
    for kind in (pa.list_(struct), pa.large_list(struct), pa.list_(struct, 2)):
        assert pa.types.is_struct(kind.field(0).type)
    assert pa.types.is_struct(pa.map_(pa.string(), struct).field(0).type) or (
        pa.types.is_struct(pa.map_(pa.string(), struct).field(1).type)
    )
    assert [kind.num_fields for kind in (pa.string(), pa.list_(pa.string()))] == [0, 1]


def test_several_datasets_are_a_dict_by_their_names(tmp_path: Path) -> None:
    """A saved DatasetDict is loaded as a dict of its names in order, validation among them.

    Needed by: coevolve/environments/tools/task_rows.py
    """
    part = datasets.Dataset.from_list(ROWS)
    names = ["train", "validation", "test"]
    datasets.DatasetDict(dict.fromkeys(names, part)).save_to_disk(str(tmp_path))
    found = datasets.load_from_disk(str(tmp_path))
    assert isinstance(found, dict)
    assert [str(name) for name in found] == names
    assert str(datasets.Split.VALIDATION) == "validation"
