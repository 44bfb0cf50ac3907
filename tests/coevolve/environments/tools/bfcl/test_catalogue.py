import importlib.metadata
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from coevolve.environments.tools.bfcl.catalogue import CATEGORIES, NEAR, load_tasks
from coevolve.environments.tools.bfcl.stock import (
    DOCUMENTS,
    PACKAGE,
    package_folder,
    simulator_class,
)
from coevolve.environments.tools.gates.similarity import Likenesses
from coevolve.environments.tools.task import read_body
from coevolve.environments.tools.toolsets import tool_documents
from protocols.tasks import Seeded


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (package_folder() / "data" / name).open()]


def test_all_four_categories_are_loaded() -> None:
    tasks = load_tasks()
    assert len(tasks) == len({task.task_id for task in tasks}) == 800
    assert Counter(task.split for task in tasks) == {"train": 556, "held_out": 244}
    assert all(
        isinstance(task.origin, Seeded) and task.origin.source == f"bfcl:{task.task_id}"
        for task in tasks
    )


def test_tasks_equal_those_of_the_benchmark() -> None:
    for category in CATEGORIES:
        name = f"BFCL_v4_multi_turn_{category}.json"
        answers = lines(f"possible_answer/{name}")
        for task, item, answer in zip(load_tasks([category]), lines(name), answers, strict=True):
            assert task.task_id == item["id"] == answer["id"]
            assert json.loads(read_body(task.body).world) == item["initial_config"]
            assert list(read_body(task.body).classes) == item["involved_classes"]
            assert [list(turn.reference) for turn in read_body(task.body).turns] == answer[
                "ground_truth"
            ]
            assert [turn.instruction for turn in read_body(task.body).turns] == [
                messages[0]["content"] if messages else "" for messages in item["question"]
            ]
            assert read_body(task.body).long_context == (category == "long_context")
            assert len(task.skills) == len(read_body(task.body).turns)


def test_withheld_tools_are_documented_and_revealed_where_the_user_says_nothing() -> None:
    for task, item in zip(
        load_tasks(["miss_func"]), lines("BFCL_v4_multi_turn_miss_func.json"), strict=True
    ):
        documented = {
            tool.name for name in read_body(task.body).classes for tool in tool_documents(name)
        }
        assert read_body(task.body).withheld
        assert documented.issuperset(read_body(task.body).withheld)
        revealed = {
            str(number): list(turn.revealed)
            for number, turn in enumerate(read_body(task.body).turns)
            if turn.revealed
        }
        assert revealed == item["missed_function"]
        assert all(not turn.instruction for turn in read_body(task.body).turns if turn.revealed)
    assert not any(read_body(task.body).withheld for task in load_tasks(["base", "miss_param"]))


def test_no_initial_scenario_is_on_both_sides() -> None:
    sides = defaultdict(set)
    for task in load_tasks():
        for name, scenario in json.loads(read_body(task.body).world).items():
            if scenario:
                sides[name, json.dumps(scenario, sort_keys=True)].add(task.split)
        sides[task.task_id.rsplit("_", 1)[1]].add(task.split)
    assert len(sides) > 400
    assert all(len(splits) == 1 for splits in sides.values())


def test_near_duplicates_are_on_one_side() -> None:
    sides = {int(task.task_id.rsplit("_", 1)[1]): task for task in load_tasks(["base"])}
    held_out = Likenesses(NEAR)
    for number, task in sides.items():
        if task.split == "held_out":
            held_out.add(str(number), task.body)
    near = [n for n, task in sides.items() if task.split == "train" and held_out.alike(task.body)]
    assert not near
    assert sides[107].split == sides[136].split


def test_every_public_method_is_documented_and_nothing_else() -> None:
    for name in DOCUMENTS:
        simulator = simulator_class(name)
        public = {method for method in vars(simulator) if not method.startswith("_")}
        assert {tool.name for tool in tool_documents(name)} == public


def test_documentation_contains_all_that_a_prompt_needs() -> None:
    first = tool_documents("GorillaFileSystem")[0]
    assert first.name == "cat"
    assert "Display the contents" in first.description
    assert first.parameters["required"] == ["file_name"]


@pytest.mark.parametrize(
    "statement",
    [
        "from coevolve.environments.tools.bfcl.catalogue import load_tasks; load_tasks()",
        "from coevolve.environments.tools.bfcl.stock import load; load('MathAPI')",
    ],
)
def test_a_missing_package_is_refused_with_its_remedy(statement: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules['bfcl_eval'] = None; {statement}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[5],
        env=os.environ | {"COEVOLVE_CACHE": "/none"},
    )
    assert found.returncode == 1
    last = found.stderr.strip().splitlines()[-1]
    assert last.startswith("protocols.errors.DependencyError: environment bfcl needs the package")
    assert "run `coevolve setup bfcl`" in last


def test_a_child_imports_no_heavy_package_and_no_module_that_makes_folders() -> None:
    statement = (
        "import sys; import coevolve.environments.tools.child; "
        "from coevolve.environments.tools.bfcl.stock import CLASSES, load; "
        "[load(name) for name in CLASSES]; "
        "heavy = {'torch', 'ray', 'numpy', 'transformers', 'bfcl_eval.utils', "
        "'bfcl_eval.constants.eval_config'}; print(sorted(heavy.intersection(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", statement],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[5],
    )
    assert found.stdout.strip() == "[]"


def test_the_package_is_the_one_whose_checker_is_described() -> None:
    package_folder()
    assert importlib.metadata.version("bfcl-eval") == PACKAGE.version == "2026.3.23"
