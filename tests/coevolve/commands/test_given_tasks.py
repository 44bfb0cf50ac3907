"""What a start says about the tasks of a file."""

import json
from pathlib import Path
from typing import Any

import pytest

from coevolve.commands.authors import tasks_of, tool_environment
from coevolve.commands.environment import configured
from coevolve.commands.given_tasks import about_tasks
from tests.conftest import ROOT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(ROOT / "tests" / "own")
    return tmp_path


def task(number: int, **others: Any) -> dict[str, Any]:
    key = f"k{number}"
    turn = {"instruction": f"Set '{key}' to 'x'.", "reference": [f"put(key='{key}', value='x')"]}
    split = "held_out" if number % 3 == 0 else "train"
    return {"id": f"t{number}", "world": {key: "0"}, "split": split, "turns": [turn]} | others


def said(folder: Path, tasks: list[dict[str, Any]], *settings: str) -> list[str]:
    file = folder / "tasks.jsonl"
    file.write_text("\n".join(map(json.dumps, tasks)))
    given = (f"tasks={file}", "unearned=keep", *settings)
    environment = tool_environment(configured("keyvalue:KeyValue", given))
    train, held_out = tasks_of(environment, "train"), tasks_of(environment, "held_out")
    return list(about_tasks(environment.source(), train, held_out))


def test_enough_good_tasks_are_one_line_with_the_interval_of_a_score(folder: Path):
    (line,) = said(folder, [task(n) for n in range(60)], "seeds=40")
    assert "to train on, 20 held out" in line
    assert "up to \N{PLUS-MINUS SIGN} 20 points" in line


@pytest.mark.parametrize(
    ("count", "settings", "words"),
    [
        (12, (), "these are few tasks: 30 or more"),
        (60, ("seeds=25",), "5 training tasks more stay unused: raise environment.seeds"),
        (60, ("held_out=1",), "19 held-out tasks more stay unused: raise environment.held_out"),
    ],
)
def test_few_and_unused_tasks_are_told(
    folder: Path, count: int, settings: tuple[str, ...], words: str
):
    lines = said(folder, [task(n) for n in range(count)], *settings)
    assert len(lines) == 2
    assert words in lines[1]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"world": {"one": "1"}}, "20 of 20 held-out tasks have the world"),
        ({}, ""),
    ],
)
def test_worlds_of_both_splits_are_told(folder: Path, change: dict[str, Any], named: str):
    lines = said(folder, [task(n) | change for n in range(60)])
    assert any(named in line for line in lines)
    assert any("have the world" in line for line in lines) == bool(named)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (1, "1 task was left out, t1: turn 1 answers with an error"),
        (3, "3 tasks were left out (t1, t2, t3), the first one t1: turn 1"),
        (20, "t11, t12 and 8 more), the first one t1: turn 1"),
    ],
)
def test_every_task_that_is_left_out_is_named(folder: Path, wrong: int, told: str):
    tasks = [task(n) for n in range(60)]
    for each in tasks[1 : wrong + 1]:
        each["turns"][0]["reference"] = ["putt(key='k', value='x')"]
    (line,) = [each for each in said(folder, tasks) if "left out" in each]
    assert told in line
    assert line.endswith("correct its reference, its world or the tools")
