import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.environments.tools.cells import held_out_pair
from coevolve.environments.tools.commands import Passed
from coevolve.environments.tools.filesystem.environment import StaticSource, UniformSource
from coevolve.environments.tools.filesystem.grammar import (
    SEED_IMBALANCE,
    UNIFORM,
    draw_task,
    group_of,
    held_out_tasks,
    paraphrases,
    static_pool,
    uniform_task,
)
from coevolve.environments.tools.filesystem.settings import FilesystemConfig
from coevolve.environments.tools.filesystem.skills import SKILLS
from coevolve.environments.tools.session import Session
from coevolve.environments.tools.task import read_body, tool_task
from protocols.interfaces import TaskSource
from protocols.tasks import Task


def spoken(task: Task) -> tuple[str, ...]:
    return (read_body(task.body).world, *(turn.instruction for turn in read_body(task.body).turns))


def test_there_are_25_skills_with_three_paraphrases_each() -> None:
    assert len(SKILLS) == 25
    assert Counter(skill.group for skill in SKILLS.values()) == {"well": 9, "rare": 8, "scarce": 8}
    for skill in SKILLS.values():
        assert len(set(skill.paraphrases)) == 3


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), turns=st.integers(1, 4))
def test_the_reference_of_a_task_passes_in_a_fresh_session_with_the_recorded_answers(
    seed: int, turns: int
) -> None:
    task = draw_task(np.random.default_rng(seed), UNIFORM, turns)
    assert len(read_body(task.body).turns) == len(task.skills) == turns
    assert read_body(task.body).checks_directory
    session = Session(read_body(task.body))
    for skill, turn in zip(task.skills, read_body(task.body).turns, strict=True):
        for call, result in zip(turn.reference, turn.results, strict=True):
            observed = session.act(call)
            assert (observed.result, observed.failed) == (result, False)
        assert session.grade() == Passed()
        assert turn.instruction in paraphrases(skill, turn.reference)


@pytest.mark.parametrize("name", [name for name in SKILLS if name != "cdup"])
def test_every_skill_but_going_back_can_open_a_conversation(name: str) -> None:
    task = draw_task(np.random.default_rng(0), {name: 1.0}, 1)
    assert task.skills == (name,)
    assert len(paraphrases(name, read_body(task.body).turns[0].reference)) == 3


def test_going_back_up_is_preceded_by_going_somewhere() -> None:
    task = draw_task(np.random.default_rng(0), {"cdup": 1.0}, 2)
    assert task.skills == ("cd", "cdup")


def test_weights_that_allow_no_task_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"no task of 1 turn\(s\) .* alone: cdup"):
        draw_task(np.random.default_rng(0), {"cdup": 1.0}, 1)
    with pytest.raises(ValueError, match="1 to 4 turns, got 5"):
        draw_task(np.random.default_rng(0), UNIFORM, 5)


def test_the_same_seed_draws_the_same_task_and_another_seed_another() -> None:
    assert uniform_task(3, 7) == uniform_task(3, 7)
    assert len({uniform_task(seed, 7).task_id for seed in range(20)}) == 20
    assert len({uniform_task(3, number).task_id for number in range(20)}) == 20


def test_the_held_out_tasks_are_the_same_in_every_run() -> None:
    tasks = held_out_tasks()
    ids = json.dumps([task.task_id for task in tasks])
    assert ids == json.dumps([task.task_id for task in held_out_tasks()])
    assert Counter(map(group_of, tasks)) == {"well": 42, "rare": 38, "scarce": 40, "multi": 120}
    assert Counter(len(task.skills) for task in tasks) == {1: 120, 2: 40, 3: 40, 4: 40}
    assert {task.split for task in tasks} == {"held_out"}
    assert len(set(map(spoken, tasks))) == 240


def test_no_training_task_shares_even_its_world_with_a_held_out_task() -> None:
    held_out = {read_body(task.body).world for task in held_out_tasks(480)}
    drawn = [uniform_task(seed, number) for seed in range(3) for number in range(200)]
    drawn += static_pool(0, 200)
    assert {task.split for task in drawn} == {"train"}
    assert not held_out & {read_body(task.body).world for task in drawn}


def test_no_training_task_has_a_held_out_request_in_any_of_its_turns() -> None:
    requests = {
        read_body(task.body).turns[0].instruction
        for task in held_out_tasks()
        if len(task.skills) == 1
    }
    assert len(requests) > 100
    for task in (*static_pool(0, 150), *(uniform_task(1, number) for number in range(150))):
        for turn in read_body(task.body).turns:
            assert turn.instruction not in requests


def test_a_pair_of_requests_that_is_held_out_is_in_no_training_task() -> None:
    drawn = (*static_pool(0, 150), *(uniform_task(1, number) for number in range(150)))
    assert not any(held_out_pair(tool_task(task)) for task in drawn)
    long = [task for task in held_out_tasks(480) if len(task.skills) > 1]
    assert 50 <= sum(bool(held_out_pair(tool_task(task))) for task in long) <= 120


def test_a_world_belongs_to_one_split_whatever_the_seed() -> None:
    # The same generator state drawn for both splits: the digest of the world decides, not the seed.
    for seed in range(50):
        train = draw_task(np.random.default_rng(seed), UNIFORM, 1)
        held_out = draw_task(np.random.default_rng(seed), UNIFORM, 1, split="held_out")
        assert read_body(train.body).world != read_body(held_out.body).world


def test_the_static_pool_keeps_the_imbalance_of_the_warm_start() -> None:
    skills = [skill for task in static_pool(0, 300) for skill in task.skills]
    by_group = Counter(SKILLS[skill].group for skill in skills)
    assert by_group["well"] > 6 * by_group["rare"]
    assert by_group["rare"] > by_group["scarce"] > 0
    assert set(SEED_IMBALANCE.values()) == {8, 1, 0.25}


def test_uniform_tasks_exercise_all_skills() -> None:
    skills = Counter(skill for number in range(500) for skill in uniform_task(0, number).skills)
    assert set(skills) == set(SKILLS)
    assert max(skills.values()) < 4 * min(skills.values())


def test_sources_say_which_tasks_are_new_to_the_journal() -> None:
    settings = FilesystemConfig(seeds=10, held_out=24)
    static: TaskSource = StaticSource(0, settings)
    task, is_new = static.draw(3)
    assert task in static.pool()
    assert not is_new
    assert StaticSource(0, settings).draw(3) == (task, False)
    uniform: TaskSource = UniformSource(0, settings)
    assert uniform.pool() == ()
    assert uniform.draw(3) == (uniform_task(0, 3, settings.held_out), True)
    assert len(uniform.held_out()) == 24


def test_a_start_is_a_training_world_of_its_own_the_same_in_every_arm() -> None:
    settings = FilesystemConfig(seeds=2, held_out=2)
    starts = [UniformSource(3, settings).start(number) for number in range(20)]
    assert StaticSource(3, settings).start(7) == starts[7]
    assert starts[7].origin == "grammar:world:7"
    assert all(start.checks_directory for start in starts)
    assert len({start.world for start in starts}) == 20
    held_out = {read_body(task.body).world for task in held_out_tasks(100)}
    assert not held_out & {start.world for start in starts}
