from collections import Counter
from typing import Literal

import msgspec
import pytest

from coevolve.environments.tools.filesystem.environment import Filesystem
from coevolve.environments.tools.filesystem.grammar import held_out_tasks, uniform_task
from coevolve.environments.tools.filesystem.skills import SKILLS
from coevolve.environments.tools.task import read_body
from protocols.config import RunConfig
from protocols.interfaces import TaskSource
from protocols.tasks import Task

COUNT = 64


def config(seed: int = 0, seeds: int = 300) -> RunConfig:
    environment = {"use": "filesystem", "seeds": seeds, "held_out": 240}
    return RunConfig(name="test", seed=seed, environment=environment)


def source_of(config: RunConfig, arm: Literal["static", "uniform"] = "static") -> TaskSource:
    return Filesystem(msgspec.structs.replace(config, arm=arm)).source()


def spoken(task: Task) -> tuple[str, ...]:
    return (read_body(task.body).world, *(turn.instruction for turn in read_body(task.body).turns))


def test_the_canaries_are_the_same_in_every_run_whatever_its_arm_and_seed() -> None:
    canaries = source_of(config()).canaries(COUNT)
    assert len(canaries) == COUNT
    assert canaries == source_of(config(seed=7), "uniform").canaries(COUNT)
    assert source_of(config(seed=1)).canaries(9) == canaries[:9]


def test_a_run_on_the_grammar_is_guarded_with_as_many_canaries_as_it_asks_for() -> None:
    canaries = Filesystem(config()).canaries()
    assert canaries == source_of(config()).canaries(config().learner.guard.tasks)


@pytest.mark.parametrize("seed", range(3))
def test_no_canary_is_trained_on_or_held_out(seed: int) -> None:
    source = source_of(config(seed))
    canaries = source.canaries(COUNT)
    said = set(map(spoken, canaries))
    assert len(said) == len({task.task_id for task in canaries}) == COUNT
    drawn = [*source.pool(), *(uniform_task(seed, number) for number in range(300))]
    for others in (drawn, held_out_tasks(240)):
        assert not said.intersection(map(spoken, others))
        assert not {task.task_id for task in canaries} & {task.task_id for task in others}


def test_canaries_play_in_worlds_of_the_training_split() -> None:
    canaries = source_of(config()).canaries(COUNT)
    assert {task.split for task in canaries} == {"train"}
    held_out = {read_body(task.body).world for task in held_out_tasks(480)}
    assert not held_out & {read_body(task.body).world for task in canaries}


def test_canaries_are_as_long_as_training_tasks_and_exercise_all_skills() -> None:
    canaries = source_of(config()).canaries(240)
    assert Counter(len(read_body(task.body).turns) for task in canaries) == {1: 80, 2: 80, 3: 80}
    assert {skill for task in canaries for skill in task.skills} == set(SKILLS)
