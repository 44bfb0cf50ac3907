from typing import Any

import pytest

from coevolve.environments.tools.bfcl.catalogue import load_tasks
from coevolve.environments.tools.bfcl.directory import places
from coevolve.environments.tools.session import World
from coevolve.environments.tools.task import ToolTask, read_body
from coevolve.environments.tools.weight import (
    MAX_FOLDERS,
    MAX_WEIGHT,
    VALUE_WEIGHT,
    OverweightError,
    weigh,
)

V = VALUE_WEIGHT
FILES = '{"GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": {}}}}}'


def added(value: Any) -> int:
    """Return the weight of a value in a simulator with nothing else."""
    return weigh([value]) - weigh([None]) + V


def files() -> World:
    return World(ToolTask(classes=("GorillaFileSystem",), world=FILES, turns=()))


def told(world: World, *calls: str) -> World:
    for call in calls:
        assert not world.call(call).failed, call
    return world


def test_each_value_counts_and_each_character() -> None:
    assert added(1.5) == added(True) - 1 == added(None) == V
    assert added("abc") == V + 3
    assert added(2**1000) == V + 1001
    assert added([None, "abc", (1.5, 1.5)]) == V + V + V + 3 + 3 * V
    assert added({"ab": {None}}) == V + (V + 2) + (V + V)


def test_a_shared_value_counts_at_every_place() -> None:
    names = ["a" * 100] * 10
    assert added([names, names, names]) == V + 3 * added(names)


def test_a_file_counts_with_the_path_that_leads_to_it() -> None:
    before = files().weight
    short = told(files(), "mkdir('d')", "cd('d')", "touch('f')", "cd('..')").weight
    long = told(files(), "mkdir('ddd')", "cd('ddd')", "touch('f')", "cd('..')").weight
    assert short > before
    # Two characters more in each path, to the folder and to the file; and the tree counts twice,
    # because the working directory is its root.
    assert long - short == 2 * (2 + 2)


def test_a_folder_that_holds_itself_is_too_large() -> None:
    world = told(files(), "mkdir('d')")
    with pytest.raises(OverweightError):
        world.call("cp('d', 'd')")


def test_a_chain_of_folders_has_a_greatest_length_in_the_tree_and_outside_of_it() -> None:
    world = files()
    with pytest.raises(OverweightError):
        told(world, *("mkdir('d')", "cd('d')") * MAX_FOLDERS)
    outside = told(files(), "mkdir('a')", "cd('a')", "mkdir('b')", "cd('..')", "mv('a', 'e')")
    told(outside, "cd('e')", "cd('b')", "cd('..')")
    assert places(outside.instances["GorillaFileSystem"]) == set()
    with pytest.raises(OverweightError):
        told(outside, *("mkdir('d')", "cd('d')") * MAX_FOLDERS)


def test_no_folder_multiplies_beyond_the_greatest_weight() -> None:
    world = told(files(), "mkdir('d')")
    doubled = ("cp('d', 'e')", "mkdir('n')", "mv('d', 'n')", "mv('e', 'n')", "mv('n', 'd')")
    with pytest.raises(OverweightError):
        told(world, *doubled * 20)
    assert world.weight <= MAX_WEIGHT


def test_the_benchmarks_worlds_are_far_below_the_maximum() -> None:
    heaviest = 0
    for task in load_tasks(["long_context"])[::7]:
        world = World(read_body(task.body))
        for turn in read_body(task.body).turns:
            told(world, *turn.reference)
            heaviest = max(heaviest, world.weight)
    assert heaviest < MAX_WEIGHT / 5
