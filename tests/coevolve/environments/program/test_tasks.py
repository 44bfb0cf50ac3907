"""Tasks of a program: a file of JSON lines, split once and for all, and refused in one sentence."""

import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from coevolve.config.load import load_config
from coevolve.environments.initial_model import TASKS, make_model
from coevolve.environments.program.settings import ProgramConfig
from coevolve.environments.program.tasks import TaskFile, line_of, printed_tasks, read_tasks
from coevolve.environments.registry import environment_named, environment_of
from protocols.config import RunConfig
from protocols.errors import CoevolveError, ConfigError
from protocols.learner_config import GuardConfig, LearnerConfig
from tests.commands import answered

ROWS = [{"id": f"t{n}", "prompt": f"Do {n}.", "hidden": [n]} for n in range(20)]


def read(folder: Path, rows: list[Any] | bytes, seed: int = 0, **settings: Any) -> TaskFile:
    path = folder / "tasks.jsonl"
    lines = rows if isinstance(rows, bytes) else "\n".join(map(json.dumps, rows)).encode()
    path.write_bytes(lines)
    config = RunConfig(name="r", seed=seed, learner=LearnerConfig(guard=GuardConfig(tasks=4)))
    return read_tasks(ProgramConfig(tasks=str(path), command=("x",), **settings), config)


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
    "no JSON": (b'{"id": "a"}\n\n{', "line 3, needs a JSON object with an id"),
    "a list": ([[1]], "line 1, needs a JSON object with an id"),
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
        read_tasks(settings, RunConfig(name="r"))


def test_a_program_makes_no_tasks_and_is_looked_up_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="program makes no tasks of its own; choose static"):
        load_config("program_openai", ["arm=full"])
    for command, python, setting in (
        (["nothing.py"], "", "command"),
        (["no-such-program", "x"], "", "command"),
        (["coevolve:openai_loop.py"], "/no/python", "python"),
    ):
        environment = environment_named(
            "program", tasks="coevolve:letters.jsonl", command=command, python=python
        )
        said = rf"environment\.{setting}: needs programs that exist"
        with pytest.raises(CoevolveError, match=said):
            environment.check()


def test_the_answer_of_a_simulator_may_take_as_long_as_an_attempt() -> None:
    config = load_config("program_openai", ["environment.patience_s=1234"])
    assert environment_of(config).patience_s > 1234


LISTS = """
import json, sys
assert sys.argv[1:] == ["--tasks"], sys.argv
for n in range(4): print(json.dumps({"id": f"t{n}", "prompt": str(n)}))
"""


def asked(folder: Path, code: str) -> tuple[int, str]:
    """Ask a program for its tasks; return the exit code, and what was said."""
    (folder / "mine.py").write_text(code)
    command = f"command=[{folder}/mine.py]"
    answer = answered("environment", "tasks", "program", command, "--to", str(folder / "t.jsonl"))
    return answer.returncode, answer.stdout + answer.stderr


def test_a_program_prints_its_tasks_once_into_a_file(tmp_path: Path) -> None:
    assert asked(tmp_path, LISTS) == (0, f"{tmp_path}/t.jsonl: 4 tasks\n")
    settings = ProgramConfig(tasks=str(tmp_path / "t.jsonl"), command=("x",))
    source = read_tasks(settings, RunConfig(name="r"))
    assert len(source.pool()) + len(source.held_out()) + len(source.canaries(9)) == 4
    assert "exists already" in asked(tmp_path, LISTS)[1]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("", "needs to print tasks, found none"),
        ("print('a')", "line 1, needs a JSON object with an id"),
        ("print('{\"id\": 5}')", "Expected `str`, got `int`"),
        ('print(\'{"id": "a"}\\n\' * 2)', "needs ids that differ, found 'a' twice"),
        ("raise SystemExit('no tasks here')", "ended with status 1: no tasks here"),
        ("import os; os.kill(os.getpid(), 9)", "ended with status -9"),
    ],
)
def test_a_program_that_prints_no_tasks_is_refused(code: str, said: str, tmp_path: Path) -> None:
    returned, words = asked(tmp_path, code)
    assert returned == 1
    assert said in words
    assert not (tmp_path / "t.jsonl").exists()


def test_a_program_that_prints_too_long_ends_with_all_that_it_started(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import subprocess, sys, time\n"
        "sleeping = [sys.executable, '-S', '-c', 'import time; time.sleep(600)']\n"
        "left = subprocess.Popen(sleeping, start_new_session=True)\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(left.pid))\n"
        "time.sleep(600)"
    )
    command = (str(tmp_path / "mine.py"),)
    with pytest.raises(ConfigError, match=r"needs to print tasks .* timed out after"):
        printed_tasks(ProgramConfig(tasks="", command=command, patience_s=3))
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_a_run_keeps_its_tasks_and_refuses_others(tmp_path: Path) -> None:
    path, run = tmp_path / "mine.jsonl", tmp_path / "run"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    more = [f"environment.tasks={path}", "policy.tiny_random=false", "policy.model=tiny"]
    config = load_config("program_openai", more)
    for _ in range(2):
        make_model(config, run)
    assert (run / TASKS).read_bytes() == path.read_bytes()
    path.write_text("\n".join(map(json.dumps, ROWS[1:])))
    with pytest.raises(ConfigError, match="needs to be as it was when the run began") as refused:
        make_model(config, run)
    assert f"copy {run / TASKS} to its place" in str(refused.value)
    path.unlink()
    with pytest.raises(ConfigError, match="needs to be a file of JSON lines"):
        make_model(config, run)


@pytest.mark.parametrize("command", ["mine.py", "coevolve:openai_loop.py"])
async def test_answers_in_tasks_of_a_users_program_are_named(command: str, tmp_path: Path) -> None:
    rows = [row | ({"answer": "5"} if n % 7 == 3 else {}) for n, row in enumerate(ROWS)]
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    environment = environment_named("program", tasks=str(path), command=[command])
    (finding,) = await environment.hostile(100)
    is_own = command == "mine.py"
    assert finding.state == ("warns" if is_own else "holds")
    assert ("hold the field 'answer'" in finding.found) == is_own
