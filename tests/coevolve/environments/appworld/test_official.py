"""Tasks in a folder of the benchmark's layout: which are trained on, and who gives the verdict."""

import shutil
from pathlib import Path

import pytest

from coevolve.environments.appworld.environment import AppWorld
from coevolve.environments.registry import config_of
from coevolve.environments.sandbox.runner import Sandbox
from coevolve.environments.tools.commands import Failed, Passed
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.task import tool_task
from coevolve.environments.tools.wire import ToolClient
from protocols.errors import ConfigError
from tests.coevolve.environments.appworld.episodes import reference, tasks

pytestmark = [pytest.mark.appworld, pytest.mark.timeout(300)]


@pytest.fixture
def folder(data: Path, tmp_path: Path) -> Path:
    """A copy of own data without references, with the benchmark's sets."""
    made = tmp_path / "data"
    shutil.copytree(data, made)
    sets = made / "datasets"
    sets.mkdir()
    first, second, third, fourth, *_ = tasks(data)
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
    first, second, third, fourth, *_ = tasks(data)
    train, held_out = environment.source().pool(), environment.scored_tasks()
    assert {each.task_id for each in train} == {first, second}
    assert [each.task_id for each in held_out] == [third, fourth]
    assert environment.labels() == {
        third: ("test_normal", "difficulty 1"),
        fourth: ("test_challenge", "difficulty 2"),
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


def test_a_folder_without_tasks_is_refused(tmp_path: Path) -> None:
    environment = AppWorld(
        config_of({"use": "appworld", "source": "official", "data": str(tmp_path)})
    )
    with pytest.raises(ConfigError, match="appworld download data"):
        environment.source()
