import gc
import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import structlog

# Two workers share the machine, and vLLM counts on one number of threads in a whole process; it is
# read when torch loads.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

import pytest
from hypothesis import settings

from coevolve.config.load import load_config
from coevolve.parts.pace import PACES
from protocols.config import RunConfig
from protocols.errors import DependencyError

# The time of an example depends mostly on the other load of the machine. A suite is judged on the
# same examples in each run; `--hypothesis-profile=search` tries new ones.
settings.register_profile("search", deadline=None)
settings.register_profile("same", deadline=None, derandomize=True)
settings.load_profile("same")

ROOT = Path(__file__).parents[1]

LONG = ("ray", "vllm", "timeout")
"""Marks of tests that start whole runs, or may take longer than others."""


# What is loaded stays: looking through it for garbage, time and again, takes a fifth of loading it.
gc.disable()


def pytest_collection_finish() -> None:
    """Collect from here on, but nothing of what is loaded."""
    gc.freeze()
    gc.enable()


WITH_LONG = 2
"""Workers that begin with long tests, one for each core of a small machine. Long tests often wait;
further workers fill these gaps with quick ones."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the first workers start with the files of long tests, an equal number each.

    Each worker begins with its share of the list, and takes from the end of the others' when it is
    done, but not their last two: long tests there would leave it without work. So the files whose
    tests have the longest timeouts come first.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    runners = min(workers, WITH_LONG)
    long = [item for item in items if any(item.get_closest_marker(name) for name in LONG)]
    files = list(dict.fromkeys(item.path for item in sorted(long, key=_timeout_s, reverse=True)))
    quick = iter(item for item in items if item not in set(long))
    size = -(-len(items) // workers)
    shares: list[list[pytest.Item]] = []
    for worker in range(workers):
        mine = files[worker::runners] if worker < runners else []
        begun = [item for path in mine for item in long if item.path == path]
        shares.append([*begun, *islice(quick, max(0, size - len(begun)))])
    items[:] = [*chain(*shares), *quick]


def _timeout_s(item: pytest.Item) -> float:
    mark = item.get_closest_marker("timeout")
    return mark.args[0] if mark else 0.0


WAITS = (
    "coevolve.environments.tools.environment.ToolEnvironment.attempt_gather_s",
    "coevolve.environments.tools.evolution.GATHER_S",
)
"""How long parts rest, and wait for more to do or to write in one call."""


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let parts wait a hundredth of a second for more, which is enough within one process."""
    for constant in WAITS:
        monkeypatch.setattr(constant, 0.01)
    for consumer, pace in PACES.items():
        waits = ("take_gather_s", "write_gather_s", "urgent_gather_s")
        shorter = {name: min(0.01, getattr(pace, name)) for name in waits}
        monkeypatch.setitem(PACES, consumer, replace(pace, **shorter))


@pytest.fixture
def quickstart() -> RunConfig:
    """The quickstart, but its made tasks join the pool at once."""
    return load_config(ROOT / "configs" / "quickstart.yaml", ["evolve_every=0"])


@pytest.fixture(scope="session")
def appworld_engine() -> None:
    """Skip where AppWorld's engine is not set up."""
    from coevolve.environments.appworld.place import engine_folder

    try:
        engine_folder()
    except DependencyError as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def log_lines_go_where_they_went() -> Iterator[None]:
    """Undo a command's log settings, because its output is closed when its test is over."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def new_files_have_the_modes_of_before() -> Iterator[None]:
    """Undo the umask of a command, which makes all that its process writes private."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)
