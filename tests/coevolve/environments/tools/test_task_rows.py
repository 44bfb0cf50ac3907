"""Tasks come out of each format as they were written, or are refused in words."""

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from coevolve.environments.tools.task import tool_task
from coevolve.environments.tools.task_files import read_tasks
from protocols.errors import ConfigError
from protocols.tasks import Task

datasets = pytest.importorskip("datasets")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

TOOLS = "m:Store"
SAME_KEYS: list[Any] = [{"a": str(n), "in": {"b": [n]}} for n in range(4)]
OTHER_KEYS: dict[str, list[Any]] = {
    "of a world": [{"a" if n % 2 else "b": "x"} for n in range(4)],
    "of a dict in a world": [{"in": {"a" if n % 2 else "b": "x"}} for n in range(4)],
    "of a list's dicts": [{"in": [{"a": n}, {"b": n}]} for n in range(4)],
    "of a list of dicts": [[{"a": n}, {"b": n}] for n in range(4)],
    "and null": [{"a": str(n), "b": None if n == 3 else "x"} for n in range(4)],
    "and none": [{"a": "x"} if n else {} for n in range(4)],
}


def rows(worlds: Sequence[object], **fields: object) -> list[dict[str, Any]]:
    return [
        {
            "id": f"t{n}",
            "world": world,
            "turns": [{"instruction": f"do {n}", "reference": [f"put(key='k', value='{n}')"]}],
        }
        | fields
        for n, world in enumerate(worlds)
    ]


def texts(worlds: Sequence[object]) -> list[str]:
    return [json.dumps(world) for world in worlds]


def tasks(path: Path, share: float = 0.5) -> tuple[Task, ...]:
    return read_tasks(path, TOOLS, split_seed=0, held_out_share=share)


def worlds_in(path: Path) -> list[Any]:
    return [json.loads(tool_task(each).world)[TOOLS] for each in tasks(path)]


def table(path: Path, found: Sequence[Mapping[str, Any]]) -> Path:
    parquet.write_table(pyarrow.Table.from_pylist(found), path)
    return path


def saved(path: Path, **parts: Sequence[Mapping[str, Any]]) -> Path:
    made = {name: datasets.Dataset.from_list(list(part)) for name, part in parts.items()}
    datasets.DatasetDict(made).save_to_disk(str(path))
    return path


@pytest.mark.parametrize("name", OTHER_KEYS)
def test_a_world_with_keys_of_others_is_refused_with_the_remedy(tmp_path: Path, name: str) -> None:
    found = rows(OTHER_KEYS[name])
    datasets.Dataset.from_list(found).save_to_disk(str(tmp_path / "one"))
    for path in (table(tmp_path / "t.parquet", found), tmp_path / "one"):
        with pytest.raises(ConfigError, match=r"row \d: needs a world .* write world as JSON text"):
            tasks(path)


@pytest.mark.parametrize("worlds", [SAME_KEYS, *OTHER_KEYS.values()])
def test_json_text_is_a_world_as_it_was_written(tmp_path: Path, worlds: list[Any]) -> None:
    found = rows(texts(worlds), about={"level": 1})
    found[0]["about"] = {"source": "x"}
    assert worlds_in(table(tmp_path / "t.parquet", found)) == worlds
    datasets.Dataset.from_list(found).save_to_disk(str(tmp_path / "one"))
    assert worlds_in(tmp_path / "one") == worlds


def test_worlds_of_the_same_keys_may_be_columns(tmp_path: Path) -> None:
    assert worlds_in(table(tmp_path / "t.parquet", rows(SAME_KEYS))) == SAME_KEYS


def test_worlds_of_lists_and_of_maps_may_be_columns(tmp_path: Path) -> None:
    lists = [[n] * n for n in range(4)]
    assert worlds_in(table(tmp_path / "lists.parquet", rows(lists))) == lists
    found = pyarrow.Table.from_pylist(rows(["x"] * 4))
    maps = pyarrow.map_(pyarrow.string(), pyarrow.int64())
    column = pyarrow.array([[(f"k{n}", n)] for n in range(4)], maps)
    found = found.set_column(found.schema.get_field_index("world"), "world", column)
    parquet.write_table(found, tmp_path / "maps.parquet")
    assert worlds_in(tmp_path / "maps.parquet") == [{f"k{n}": n} for n in range(4)]


def test_worlds_of_json_columns_keep_their_nulls(tmp_path: Path) -> None:
    worlds = OTHER_KEYS["and null"]
    found = rows(worlds)
    plain = datasets.Dataset.from_list(rows(texts(worlds)))
    features = datasets.Features({**plain.features, "world": datasets.Json()})
    made = datasets.Dataset.from_list(found, features=features)
    made.save_to_disk(str(tmp_path / "one"))
    made.to_parquet(str(tmp_path / "t.parquet"))
    assert worlds_in(tmp_path / "one") == worlds_in(tmp_path / "t.parquet") == worlds


def test_a_turn_without_a_reference_beside_others_is_read(tmp_path: Path) -> None:
    found = rows(texts(SAME_KEYS))
    found[1]["turns"] = [{"instruction": "wait"}]
    task = tasks(table(tmp_path / "t.parquet", found))[1]
    assert tool_task(task).turns[0].reference == ()


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("t.jsonl", False),
        ("T.JSONL", False),
        ("t.jsonl.gz", True),
        ("T.JSON.GZ", True),
        ("t.gz", True),
        ("tasks", True),
    ],
)
def test_lines_are_read_compressed_or_not(tmp_path: Path, name: str, packed: bool) -> None:
    worlds = OTHER_KEYS["and null"]
    content = "".join(f"{json.dumps(row)}\n" for row in rows(worlds)).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if packed else content)
    assert worlds_in(tmp_path / name) == worlds


@pytest.mark.parametrize("name", ["t.parquet", "t.pq", "T.PARQUET", "T.Pq"])
def test_tables_are_read_by_their_endings(tmp_path: Path, name: str) -> None:
    assert worlds_in(table(tmp_path / name, rows(SAME_KEYS))) == SAME_KEYS


@pytest.mark.parametrize(
    "content", [gzip.compress(b"{}", mtime=0)[:-9], b"\x1f\x8bnonsense"], ids=["cut", "nonsense"]
)
def test_a_broken_compressed_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.jsonl.gz").write_bytes(content)
    with pytest.raises(ConfigError, match="has to be a file of JSON lines"):
        tasks(tmp_path / "t.jsonl.gz")


HELD_OUT = ("test", "validation", "valid", "Val", "dev", "eval", "held-out")


@pytest.mark.parametrize("name", HELD_OUT)
def test_the_name_of_a_dataset_says_its_split(tmp_path: Path, name: str) -> None:
    found = rows(texts(SAME_KEYS))
    path = saved(tmp_path / "both", **{"train": found[:1], name: found[1:]})
    assert [each.split for each in tasks(path)] == ["train", "held_out", "held_out", "held_out"]


def test_three_datasets_are_two_splits(tmp_path: Path) -> None:
    found = rows(texts(SAME_KEYS))
    path = saved(tmp_path / "three", train=found[:2], validation=found[2:3], test=found[3:])
    assert [each.split for each in tasks(path)] == ["train", "train", "held_out", "held_out"]


def test_another_name_is_refused_with_the_folder_and_the_names(tmp_path: Path) -> None:
    found = rows(texts(SAME_KEYS))
    path = saved(tmp_path / "odd", train=found[:2], extra=found[2:])
    with pytest.raises(ConfigError, match=r"odd: the split .* validation, .* found 'extra'"):
        tasks(path)


def test_rows_of_a_dataset_with_another_name_may_say_their_split(tmp_path: Path) -> None:
    found = [row | {"split": "held_out"} for row in rows(texts(SAME_KEYS))]
    path = saved(tmp_path / "odd", train=[found[0] | {"split": "train"}], extra=found[1:])
    assert [each.split for each in tasks(path)] == ["train", "held_out", "held_out", "held_out"]
