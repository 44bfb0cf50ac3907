"""Observations are those of AppWorld's own shell, over code, errors and every API."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from coevolve.environments.appworld.engines import Engine
from coevolve.environments.appworld.place import engine_folder, plain_python
from coevolve.environments.sandbox.runner import Sandbox
from tests.coevolve.environments.appworld import stock
from tests.coevolve.environments.appworld.episodes import observations, tasks
from tests.coevolve.environments.appworld.parity_blocks import CALLS, LONGER, VALUES

OTHERWISE = {"await x": "IPython awaits outside functions"}
"""Blocks whose observation differs, and why."""

WHOLE = 10**6


def of_stock(data: Path, task: str, blocks: Sequence[str], folder: Path) -> list[str]:
    (folder / "data").symlink_to(data)
    answers = folder / "answers.json"
    subprocess.run(
        [plain_python(), "-I", "-S", stock.__file__, engine_folder(), task, answers],
        input=json.dumps(blocks),
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"APPWORLD_ROOT": str(folder), "APPWORLD_CACHE": str(folder), "HOME": str(folder)},
        cwd=folder,
        check=True,
    )
    return json.loads(answers.read_text())


@pytest.mark.appworld
@pytest.mark.timeout(600)
def test_observations_are_those_of_the_engines_own_shell(
    data: Path, engine: Engine, own_sandbox: Sandbox, tmp_path: Path
) -> None:
    task = tasks(data)[0]
    world = engine.open(task)
    bare = [f"print(apis.{app}.{api}())" for app, held in world.opened.apps.items() for api in held]
    blocks = [*VALUES, *LONGER, *CALLS, *bare]
    assert len(bare) == 457
    ours = observations(own_sandbox, world, blocks, WHOLE)
    world.close()
    theirs = of_stock(data, task, blocks, tmp_path)
    differ = {
        block: (our, their)
        for block, our, their in zip(blocks, ours, theirs, strict=True)
        if our != their
    }
    assert {block: told for block, told in differ.items() if block not in OTHERWISE} == {}
    assert differ.keys() == OTHERWISE.keys()
