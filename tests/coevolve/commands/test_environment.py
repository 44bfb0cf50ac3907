"""What `environment check` prints is told once, and names what a newcomer can do."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from coevolve.environments.findings import EARNED, Finding, counted
from tests.coevolve.environments.tools.adversary.classes import made, tasks_of
from tests.commands import answered

COUNTER = '''
class Env:
    """A counter with a note."""
    def reset(self, world):
        self.count, self.note = world, ""
    def up(self, by: int) -> str:
        """Count up."""
        self.count += by
        return "ok"
    def write(self, note: str) -> str:
        """Write a note."""
        self.note = note
        return "ok"
    def reward(self, task):
        return GRADE
    def finish(self) -> str:
        """Say that all is done."""
        self.note = "finished"
        return "ok"
'''
UP = tasks_of(
    *(
        (
            n,
            f"Count {n} up by {by} and note 'more {n}'.",
            [f"up(by={by})", f"write(note='more {n}')"],
        )
        for n, by in enumerate((3, 5, 40, 22, 7, 31))
    ),
    end=[3, 6, 42, 25, 11, 36],
)


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COEVOLVE_CACHE", str(tmp_path / "cache"))


def checked(folder: Path, grade: str, tasks: Sequence[dict[str, Any]]) -> tuple[int, list[Finding]]:
    """Return the exit code of the check, and its findings."""
    use = made(folder, COUNTER.replace("GRADE", grade), tasks).name
    answer = answered("environment", "check", use, f"tasks={folder / 'tasks.jsonl'}", "--json")
    waits = "coevolve: it checks "  # what a busy machine lets it say
    assert all(each.startswith(waits) for each in answer.stderr.splitlines())
    return answer.returncode, [Finding(**each) for each in json.loads(answer.stdout)]


def test_a_reason_is_told_once_and_the_other_rows_point_to_it(tmp_path: Path) -> None:
    code, found = checked(tmp_path, "1.0", UP)
    assert code == 1
    told = [each.found for each in found if "tasks were left out" in each.found]
    assert len(told) == 1
    assert "not measured: see 'there are tasks'" in [each.found for each in found]
    (earned,) = (each for each in found if each.check == EARNED)
    assert (
        "silence (no call, no answer) gets the full reward, for example because the goal already "
        "holds at the start" in earned.found
    )


def test_a_doubt_is_a_row_of_its_own_and_no_failure(tmp_path: Path) -> None:
    code, found = checked(tmp_path, "float(self.count == task['end'])", UP)
    assert code == 0
    (doubt,) = (each for each in found if each.state == "warns")
    assert doubt.check == "no task is in doubt"
    assert "task-0" in doubt.found
    assert "pass without a call of their reference, write()" in doubt.found


def test_a_part_of_the_reference_that_is_enough_is_shown(tmp_path: Path) -> None:
    ended = [
        {**task, "turns": [{**turn, "reference": [*turn["reference"][:1], "finish()"]}]}
        for task in UP
        for turn in task["turns"]
    ]
    code, found = checked(tmp_path, "float(self.note == 'finished')", ended)
    (earned,) = (each for each in found if each.check == EARNED)
    assert code == 1
    assert "a part of its calls ('finish()')" in earned.found


def test_a_wrong_argument_is_named_with_its_tool(tmp_path: Path) -> None:
    tasks = [{**task, "note": f"more {n}"} for n, task in enumerate(UP)]
    grade = "float(self.note == task['note'] and self.count != task['world'])"
    _, found = checked(tmp_path, grade, tasks)
    (earned,) = (each for each in found if each.check == EARNED)
    assert "up with another 'by'" in earned.found


@pytest.mark.parametrize(("count", "words"), [(0, "0 tasks"), (1, "1 task"), (2, "2 tasks")])
def test_one_task_is_no_plural(count: int, words: str) -> None:
    assert counted(count, "task") == words


@pytest.mark.parametrize(
    ("use", "words"),
    [
        ("/tmp/x/shop.py:Env", ("cd '/tmp/x', and write shop:Env",)),
        ("../there/shop.py:Env", ("cd '../there', and write shop:Env",)),
        ("a/shop.py:Env", ("did you mean a.shop:Env?",)),
        ("nowhere_to_be_found:Env", ("cd to it", "set PYTHONPATH to it")),
    ],
)
def test_a_file_or_an_unknown_module_is_refused_with_what_to_write(
    use: str, words: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = answered("environment", "check", use, "tasks=tasks.jsonl")
    assert answer.returncode == 1
    assert all(each in answer.stderr for each in words), answer.stderr


def test_a_run_file_names_the_environment_and_a_failure_has_no_advice_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "import json, sys\nfor line in sys.stdin:\n"
        "    print(json.dumps({'id': json.loads(line)['id'], 'error': 'no tea'}), flush=True)\n"
    )
    (tmp_path / "mine.jsonl").write_text('{"id": "a"}\n{"id": "b"}\n')
    (tmp_path / "run.yaml").write_text(
        "name: mine\narm: static\n"
        "environment: {use: program, tasks: none.jsonl, command: [mine.py]}\n"
        "learner: {imitation: {weight: 0, replay_per_step: 0}}\n"
    )
    answer = answered("environment", "check", "run.yaml", "tasks=mine.jsonl", "--json")
    failed = [each["found"] for each in json.loads(answer.stdout) if each["state"] == "fails"]
    assert failed[0].endswith(": no tea")
    assert failed[1:] == ["not measured: see 'the program answers'"] * 2
