"""The share of held-out worlds is the one that the run file names."""

import json
from pathlib import Path

import pytest

from coevolve.environments.tools.task import tool_task
from coevolve.environments.tools.task_files import read_tasks
from protocols.tasks import Task


def written(path: Path, worlds: int, each: int, *, named: bool = True) -> Path:
    lines = [
        {
            "id": f"w{world}-{n}",
            "turns": [{"instruction": f"do {world}", "reference": [f"put(k={n})"]}],
        }
        | ({"world": {"a": world}} if named else {})
        for world in range(worlds)
        for n in range(each)
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def read(path: Path, share: float, seed: int = 0) -> tuple[Task, ...]:
    return read_tasks(path, "m:Store", split_seed=seed, held_out_share=share)


def held_out(tasks: tuple[Task, ...]) -> set[str]:
    return {task.task_id for task in tasks if task.split == "held_out"}


@pytest.mark.parametrize(
    ("worlds", "share", "expected"),
    [
        (10, 0.3, 3),
        (10, 0.25, 2),
        (7, 0.5, 4),
        (200, 0.3, 60),
        (3, 0.01, 1),
        (3, 0.99, 2),
        (2, 0.5, 1),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_the_share_of_worlds_is_exact_for_every_seed(
    tmp_path: Path, worlds: int, share: float, expected: int, named: bool
) -> None:
    path = written(tmp_path / "t.jsonl", worlds, 4, named=named)
    chosen = [held_out(read(path, share, seed)) for seed in range(8)]
    assert {len(each) for each in chosen} == {4 * expected}
    assert len(set(map(frozenset, chosen))) > 1 or worlds <= 2


def test_no_world_is_on_both_sides(tmp_path: Path) -> None:
    tasks = read(written(tmp_path / "t.jsonl", 10, 4), 0.3)
    sides = {(tool_task(task).world, task.split) for task in tasks}
    assert len(sides) == 10


def test_few_worlds_change_their_side_if_others_are_added(tmp_path: Path) -> None:
    before = held_out(read(written(tmp_path / "t.jsonl", 100, 1), 0.3))
    after = held_out(read(written(tmp_path / "t.jsonl", 110, 1), 0.3))
    known = {f"w{world}-0" for world in range(100)}
    assert len(before ^ (after & known)) <= 6
