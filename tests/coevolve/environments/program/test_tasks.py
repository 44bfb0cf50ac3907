"""Tasks of a program: a file of JSON lines, split once and for all, and refused in one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

from coevolve.config.load import load_config
from coevolve.environments.program.settings import ProgramConfig
from coevolve.environments.program.tasks import TaskFile, line_of, read_tasks
from coevolve.environments.registry import environment_named, environment_of
from protocols.errors import CoevolveError, ConfigError

ROWS = [{"id": f"t{n}", "prompt": f"Do {n}.", "hidden": [n]} for n in range(20)]


def read(folder: Path, rows: list[Any] | bytes, seed: int = 0, **settings: Any) -> TaskFile:
    path = folder / "tasks.jsonl"
    lines = rows if isinstance(rows, bytes) else "\n".join(map(json.dumps, rows)).encode()
    path.write_bytes(lines)
    return read_tasks(ProgramConfig(tasks=str(path), command=("x",), **settings), seed, 4)


def test_the_split_depends_on_its_own_seed_alone(tmp_path: Path) -> None:
    found = [read(tmp_path, ROWS, seed) for seed in range(3)]
    assert len({tuple(task.task_id for task in each.held_out()) for each in found}) == 1
    assert len({tuple(task.task_id for task in each.pool()) for each in found}) == 3
    (one, *_) = found
    assert (len(one.held_out()), len(one.pool()), len(one.canaries(9))) == (6, 11, 3)
    ids = [task.task_id for task in (*one.held_out(), *one.pool(), *one.canaries(9))]
    assert sorted(ids) == sorted(row["id"] for row in ROWS)
    assert line_of(one.pool()[0])["hidden"]


def test_each_task_is_drawn_once_before_any_is_drawn_again(tmp_path: Path) -> None:
    source = read(tmp_path, ROWS, seed=3)
    size = len(source.pool())
    for epoch in range(3):
        drawn = [source.draw(epoch * size + n)[0].task_id for n in range(size)]
        assert sorted(drawn) == sorted(task.task_id for task in source.pool())


def test_a_named_split_counts(tmp_path: Path) -> None:
    rows = [row | {"split": "train" if n < 15 else "held_out"} for n, row in enumerate(ROWS)]
    source = read(tmp_path, rows, seeds=5, held_out=2)
    assert [task.task_id for task in source.held_out()] == ["t15", "t16"]
    assert len(source.pool()) == 5


FAULTS: dict[str, tuple[list[Any] | bytes, str]] = {
    "no JSON": (b'{"id": "a"}\n{', "task 2, needs a JSON object with an id"),
    "a list": ([[1]], "task 1, needs a JSON object with an id"),
    "no id": ([{"prompt": "a"}], "missing required field `id`"),
    "a number as id": ([{"id": 5}], "Expected `str`, got `int`"),
    "an empty id": ([{"id": ""}], "found an empty one"),
    "the same id": ([{"id": "a"}, {"id": "a"}], "found 'a' twice"),
    "an unknown split": ([{"id": "a", "split": "test"}], "Invalid enum value 'test'"),
    "one task": ([{"id": "a"}], "needs a task of split train, found none of 1"),
    "nothing": (b"", "needs a task of split train, found none of 0"),
    "no text": (b"\xff\xfe", "needs a JSON object"),
    "deep": (b"[" * 10_000, "needs a JSON object"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_file_that_is_no_file_of_tasks_is_refused(kind: str, tmp_path: Path) -> None:
    rows, said = FAULTS[kind]
    with pytest.raises(ConfigError, match=r"environment\.tasks") as refused:
        read(tmp_path, rows)
    assert said in str(refused.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    settings = ProgramConfig(tasks=str(tmp_path / "none"), command=("x",))
    with pytest.raises(ConfigError, match="needs to be a file of JSON lines: FileNotFoundError"):
        read_tasks(settings, 0, 0)


def test_a_program_makes_no_tasks_and_is_looked_up_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="program makes no tasks of its own; choose static"):
        load_config("program_openai", ["arm=full"])
    for command in (["nothing.py"], ["no-such-program", "x"]):
        environment = environment_named("program", tasks="coevolve:letters.jsonl", command=command)
        with pytest.raises(CoevolveError, match=r"environment\.command: needs programs that exist"):
            environment.check()


def test_the_answer_of_a_simulator_may_take_as_long_as_an_attempt() -> None:
    config = load_config("program_openai", ["environment.patience_s=1234"])
    assert environment_of(config).patience_s > 1234
