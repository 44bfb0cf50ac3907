import gc
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

# The time of an example depends mostly on the other load of the machine.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

ROOT = Path(__file__).parents[1]

LONG = ("ray", "vllm", "timeout")
"""Marks of tests that start whole runs, or may take longer than others."""


# What is loaded stays: looking through it for garbage, time and again, takes a fifth of loading it.
gc.disable()


def pytest_collection_finish() -> None:
    """Collect from here on, but nothing of what is loaded."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each of two workers start with half of the files of long tests.

    A worker starts at one end of its half of the list, and takes from the other's when it is done:
    long tests at the end would leave one of them without work.
    """
    long = [item for item in items if any(item.get_closest_marker(name) for name in LONG)]
    files = list(dict.fromkeys(item.path for item in long))
    first, second = ([item for item in long if item.path in files[n::2]] for n in range(2))
    quick = [item for item in items if item not in set(long)]
    half = max(0, (len(items) + 1) // 2 - len(first))
    items[:] = [*first, *quick[:half], *second, *quick[half:]]


WAITS = (
    "coevolve.environments.tools.environment.ROLLOUT_GATHER_S",
    "coevolve.environments.tools.evolution.GATHER_S",
    "coevolve.rollouts.evaluator.REST_S",
    "coevolve.rollouts.scoring.REPORT_GATHER_S",
    "coevolve.rollouts.worker.GATHER_S",
    "coevolve.rollouts.worker.GROUP_GATHER_S",
    "coevolve.signals.extractor.GROUP_GATHER_S",
    "coevolve.synthesis.worker.GATHER_S",
    "coevolve.validation.validator.DECISION_GATHER_S",
)
"""How long parts rest, and wait for more to do or to write in one call."""


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let parts wait a hundredth of a second for more, which is enough within one process."""
    for constant in WAITS:
        monkeypatch.setattr(constant, 0.01)


@pytest.fixture
def quickstart() -> RunConfig:
    return load_config(ROOT / "configs" / "quickstart.yaml")


@pytest.fixture(autouse=True)
def log_lines_go_where_they_went() -> Iterator[None]:
    """Undo a command's log settings, because its output is closed when its test is over."""
    yield
    structlog.reset_defaults()
