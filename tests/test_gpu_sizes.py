"""The page on GPUs says which settings fit 1, 8 and 32 GPUs."""

import shlex

import pytest

from coevolve.config.load import load_config
from coevolve.estimate.estimate import estimate
from coevolve.launcher.fitting import demands
from tests.documented import FOLDER

PAGE = (FOLDER / "gpus.md").read_text()
SECTIONS = {1: "On one GPU:", 8: "On eight:", 32: "On 32,"}
GIGABYTES = 80
FILES = {"bfcl_qwen3_4b", "bfcl_qwen2_5_7b", "bfcl_qwen3_30b_a3b", "hdl_qwen3_4b"}


def memories() -> dict[tuple[str, int], int]:
    """Return the memory that the page's table names for a file and a number of GPUs, in GB."""
    found: dict[tuple[str, int], int] = {}
    name = ""
    for line in PAGE.partition("| run file |")[2].partition("\n\n")[0].splitlines()[2:]:
        file, gpus, _, memory, *_ = (cell.strip(" *") for cell in line.strip("|").split("|"))
        name = file.partition("`")[2].partition("`")[0] or name
        if memory:
            found[name, int(gpus)] = int(memory.removesuffix(" GB"))
    return found


MEMORIES = memories()


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
    assert round(learner) == MEMORIES[name, gpus]
    assert learner + (share if gpus == 1 else 0) < GIGABYTES
    assert found.step is not None
    assert found.step.room > 4


def test_every_size_has_commands():
    assert [sum(gpus == each for gpus, _ in sizes()) for each in SECTIONS] == [3, 4, 4]
    assert {name for name, _ in MEMORIES} == FILES
