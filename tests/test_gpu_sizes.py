"""The page on GPUs says which settings fit 1, 8 and 32 GPUs."""

import shlex

import pytest

from coevolve.config import load_config
from coevolve.launcher.fitting import demands
from coevolve.runs.estimate import estimate
from tests.documented import FOLDER

PAGE = (FOLDER / "gpus.md").read_text()
SECTIONS = {1: "On one GPU:", 8: "On eight:", 32: "On 32,"}
GIGABYTES = 80


def sizes() -> list[tuple[int, str]]:
    """Return the commands of the page with the GPUs that their section names."""
    found: list[tuple[int, str]] = []
    for gpus, heading in SECTIONS.items():
        block = PAGE.partition(heading)[2].partition("\n\n")[2].partition("\n\n")[0]
        found += [(gpus, line.strip()) for line in block.splitlines()]
    return found


@pytest.mark.parametrize(("gpus", "command"), sizes(), ids=lambda value: str(value)[:60])
def test_a_size_takes_the_gpus_and_the_memory_that_the_page_names(gpus: int, command: str):
    _, _, name, *overrides, _ = shlex.split(command)
    config = load_config(name, overrides)
    assert sum(each.total("GPU") for each in demands(config)) == gpus
    found = estimate(config)
    learner = sum(size or 0 for size in found.learner.values()) / 1e9
    engine = config.rollout.engine
    share = getattr(engine, "gpu_memory_utilization", 0.0) * GIGABYTES
    assert learner + (share if gpus == 1 else 0) < GIGABYTES
    assert found.step is not None
    assert found.step.room > 4


def test_every_size_has_commands():
    assert [sum(gpus == each for gpus, _ in sizes()) for each in SECTIONS] == [3, 4, 4]
