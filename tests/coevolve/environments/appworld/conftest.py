import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coevolve.environments.appworld.engines import Engine, make_data
from coevolve.environments.appworld.place import interpreter_folder
from coevolve.environments.sandbox.runner import Sandbox
from tests.coevolve.environments.appworld.episodes import tasks


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory, appworld_engine: None) -> Path:
    """An own world, and the tasks of `episodes.tasks`."""
    made = make_data(tmp_path_factory.mktemp("appworld"), seed=0)
    with contextlib.closing(Engine(made)) as engine:
        engine.make(tasks(made))
    return made


@pytest.fixture(scope="session")
def engine(data: Path) -> Iterator[Engine]:
    opened = Engine(data)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def own_sandbox(data: Path) -> Sandbox:
    found = Sandbox([Path(sys.base_prefix), interpreter_folder()])
    if found.level != "namespaces":
        pytest.skip("this machine lacks the level namespaces")
    return found
