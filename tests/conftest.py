import os
from collections.abc import Iterator
from pathlib import Path

import structlog

# Two workers share the machine, and vLLM counts on one number of threads in a whole process; it is
# read when torch loads.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

import pytest
from hypothesis import settings

from coevolve.config import load_config
from protocols.config import RunConfig

# How long an example takes says more about what else the machine does.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

ROOT = Path(__file__).parents[1]

LIVE = ("ray", "vllm")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each of two workers begin with half of the tests that start whole runs.

    A worker begins at one end of its half of the list, and takes from the other's when it is done:
    long tests at the end would leave one of them without work.
    """
    live = [item for item in items if any(item.get_closest_marker(name) for name in LIVE)]
    quick = [item for item in items if item not in set(live)]
    half = (len(items) + 1) // 2 - (len(live) + 1) // 2
    items[:] = [*live[::2], *quick[:half], *live[1::2], *quick[half:]]


GATHERING = (
    "coevolve.rollouts.worker.GATHER_S",
    "coevolve.rollouts.worker.GROUP_GATHER_S",
    "coevolve.synthesis.worker.GATHER_S",
    "coevolve.validation.validator.DECISION_GATHER_S",
)
"""How long writes wait for others to travel with them."""


@pytest.fixture
def prompt_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let writes wait a hundredth of a second for others, which is enough within one process."""
    for constant in GATHERING:
        monkeypatch.setattr(constant, 0.01)


@pytest.fixture
def quickstart() -> RunConfig:
    return load_config(ROOT / "configs" / "quickstart.yaml")


@pytest.fixture(autouse=True)
def log_lines_go_where_they_went() -> Iterator[None]:
    """Undo what a command set up: its output is closed when the test that ran it is over."""
    yield
    structlog.reset_defaults()
