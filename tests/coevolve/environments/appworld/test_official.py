"""Tasks in a folder of the benchmark's layout: which are trained on, and who gives the verdict."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from coevolve.environments.appworld.environment import AppWorld
from coevolve.environments.appworld.source import difficulty_of
from coevolve.environments.registry import config_of
from coevolve.environments.sandbox.runner import Sandbox
from coevolve.environments.tools.commands import Failed, Passed
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.task import tool_task
from coevolve.environments.tools.wire import ToolClient
from protocols.errors import ConfigError, DependencyError
from tests.coevolve.environments.appworld.episodes import TEMPLATES, reference, tasks

pytestmark = [pytest.mark.appworld, pytest.mark.timeout(300)]


def chosen(data: Path) -> list[str]:
    """Two tasks of one scenario, and one of each other scenario."""
    held = tasks(data)
    scenarios = [[each for each in held if each.startswith(name)] for name in TEMPLATES]
    return [*scenarios[0][:2], scenarios[1][0], scenarios[2][0]]


@pytest.fixture
def folder(data: Path, tmp_path: Path) -> Path:
    """A copy of own data without references, with the benchmark's sets."""
    made = tmp_path / "data"
    shutil.copytree(data, made)
    sets = made / "datasets"
    sets.mkdir()
    first, second, third, fourth = chosen(data)
    for name, held in (
        ("train", [first]),
        ("dev", [second]),
        ("test_normal", [third]),
        ("test_challenge", [fourth]),
    ):
        (sets / f"{name}.txt").write_text("\n".join(held))
    for path in made.glob("tasks/*/reference.json"):
        path.unlink()
    return made


async def test_the_sets_are_split_and_the_evaluator_decides(
    data: Path, folder: Path, own_sandbox: Sandbox
) -> None:
    settings = {"source": "official", "data": str(folder), "partial_credit": True}
    environment = AppWorld(config_of({"use": "appworld"} | settings))
    first, second, third, fourth = chosen(data)
    train, held_out = environment.source().pool(), environment.scored_tasks()
    assert {each.task_id for each in train} == {first, second}
    assert [each.task_id for each in held_out] == [third, fourth]
    assert environment.labels() == {
        third: ("test_normal", f"difficulty {difficulty_of(data, third)}"),
        fourth: ("test_challenge", f"difficulty {difficulty_of(data, fourth)}"),
    }
    assert {each.scenario for each in held_out} == {third[:-2], fourth[:-2]}
    assert await environment.instances(train, 1, ()) == {}
    simulator = environment.simulator()
    pool = SimulatorPool([ToolClient(simulator)])
    body = tool_task(held_out[0])
    assert body.turns[0].reference == ()
    passed = await pool.trial("right", body, (tuple(reference(data, third)),))
    assert passed.turns[0].verdict == Passed()
    idle = await pool.trial("idle", body, (("apis.supervisor.complete_task()",),))
    assert idle.turns[0].verdict == Failed(reason="tests_failed", reward=0.0)
    await simulator.close()


def test_tasks_of_the_test_sets_are_refused_as_seeds(data: Path, folder: Path) -> None:
    _, _, third, _ = chosen(data)
    variant = f"{third[:-1]}2"
    train = folder / "datasets" / "train.txt"
    train.write_text(f"{train.read_text()}\n{variant}")
    environment = AppWorld(
        config_of({"use": "appworld", "source": "official", "data": str(folder)})
    )
    with pytest.raises(ConfigError, match=f"train.txt has {variant}, a task of test_normal"):
        environment.source()


def test_the_difficulty_chooses_whole_scenarios(folder: Path) -> None:
    found = {level: [*held_out(folder, level)] for level in (1, 2, 3)}
    assert sum(map(len, found.values())) == 2
    for level, ids in found.items():
        assert {difficulty_of(folder, each) for each in ids} <= {level}


def held_out(folder: Path, difficulty: int) -> Iterator[str]:
    settings = {"source": "official", "data": str(folder), "difficulties": [difficulty]}
    path = folder / "tasks" / (folder / "datasets" / "train.txt").read_text().split()[0]
    metadata = path / "ground_truth" / "metadata.json"
    metadata.write_text(f'{{"difficulty": {difficulty}}}')
    environment = AppWorld(config_of({"use": "appworld"} | settings))
    with contextlib.suppress(ConfigError):
        yield from (each.task_id for each in environment.scored_tasks())


def test_a_folder_without_tasks_is_refused(tmp_path: Path) -> None:
    environment = AppWorld(
        config_of({"use": "appworld", "source": "official", "data": str(tmp_path)})
    )
    with pytest.raises(DependencyError, match="appworld download data"):
        environment.source()
