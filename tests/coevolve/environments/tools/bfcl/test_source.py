import json
from collections import Counter

import pytest

from coevolve.config import preflight
from coevolve.environments.registry import environment_of
from coevolve.environments.tools.bfcl.catalogue import CATEGORIES, category_of, load_tasks
from coevolve.environments.tools.bfcl.environment import Bfcl
from coevolve.environments.tools.bfcl.settings import BfclCategory
from coevolve.environments.tools.bfcl.stock import DOCUMENTS
from coevolve.environments.tools.source import FixedSource, fault
from coevolve.environments.tools.task import read_body
from coevolve.environments.tools.toolsets import tool_documents
from coevolve.environments.tools.trial import TrialRun
from protocols.config import LearnerConfig, RunConfig
from protocols.errors import ConfigError
from protocols.learner_config import GuardConfig
from protocols.tasks import Task

ALL = 1000


def config(seed: int = 0, guard: GuardConfig | None = None, **tasks: object) -> RunConfig:
    learner = LearnerConfig(guard=guard or GuardConfig())
    environment = {"use": "bfcl", "seeds": ALL, "held_out": ALL, **tasks}
    return RunConfig(name="test", seed=seed, environment=environment, learner=learner)


def source_of(config: RunConfig) -> FixedSource:
    source = Bfcl(config).source()
    assert isinstance(source, FixedSource)
    return source


def ids(tasks: object) -> list[str]:
    assert isinstance(tasks, tuple)
    return [task.task_id for task in tasks]


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_reference_passes_and_answers_without_an_error(category: BfclCategory) -> None:
    source = source_of(config(categories=[category]))
    assert source.left_out == {}
    sides = (source.pool(), source.canaries(ALL), source.held_out())
    assert [len(side) for side in sides] == [139 - 34, 34, 61]
    for task in (task for side in sides for task in side):
        assert category_of(task) == category
        for turn in read_body(task.body).turns:
            assert len(turn.results) == len(turn.reference)


def test_every_tool_class_of_the_benchmark_is_used() -> None:
    used = Counter(
        name for task in source_of(config()).pool() for name in read_body(task.body).classes
    )
    assert used.keys() == DOCUMENTS.keys()


def test_the_sides_share_no_world_whatever_the_seed_of_the_split() -> None:
    sizes: set[int] = set()
    for split_seed in range(5):
        source = source_of(
            config(split_seed=split_seed, held_out_share=0.5, categories=["base", "miss_param"])
        )
        train, held_out = (*source.pool(), *source.canaries(ALL)), source.held_out()
        sizes.add(len(train))
        assert len(train) + len(held_out) == 400
        assert 160 <= len(held_out) <= 240
        assert not worlds(train).intersection(worlds(held_out))
        assert not worlds([source.start(number) for number in range(50)]) & worlds(held_out)
    assert len(sizes) > 1


def worlds(tasks: object) -> set[str]:
    assert isinstance(tasks, (tuple, list))
    found: set[str] = set()
    for task in tasks:
        world = read_body(task.body).world if isinstance(task, Task) else task.world
        for name, scenario in json.loads(world).items():
            if scenario:
                found.add(f"{name} {json.dumps(scenario, sort_keys=True)}")
    return found


def test_the_runs_seed_decides_the_pool_but_not_the_held_out_set() -> None:
    one = source_of(config(seed=1, seeds=100, held_out=40))
    again = source_of(config(seed=1, seeds=100, held_out=40))
    other = source_of(config(seed=2, seeds=100, held_out=40))
    assert ids(one.pool()) == ids(again.pool()) != ids(other.pool())
    assert len(set(ids(one.pool()))) == 100
    assert ids(one.held_out()) == ids(other.held_out())
    assert len(one.held_out()) == 40
    assert [one.draw(n)[0] for n in range(9)] == [again.draw(n)[0] for n in range(9)]
    assert all(one.draw(number)[0] in one.pool() for number in range(9))
    assert [one.start(n) for n in range(9)] == [again.start(n) for n in range(9)]


@pytest.mark.parametrize("seed", range(3))
def test_canaries_are_training_tasks_that_no_run_trains_on(seed: int) -> None:
    source = source_of(config(seed, categories=CATEGORIES))
    canaries = set(ids(source.canaries(ALL)))
    assert len(canaries) == GuardConfig().tasks
    assert {task.split for task in source.canaries(ALL)} == {"train"}
    assert not canaries.intersection(ids(source.pool()))
    assert not canaries.intersection(ids(source.held_out()))
    assert not canaries & {source.draw(number)[0].task_id for number in range(300)}
    assert not canaries & {source.start(number).origin for number in range(300)}
    unguarded = source_of(config(seed, GuardConfig(action="none"), categories=CATEGORIES))
    assert set(ids(unguarded.pool())) == canaries.union(ids(source.pool()))
    assert unguarded.canaries(ALL) == ()


def test_the_canaries_are_the_same_for_every_seed_of_a_run_and_at_most_a_quarter() -> None:
    one, other = source_of(config(seed=1, seeds=100)), source_of(config(seed=2, seeds=50))
    assert ids(one.canaries(ALL)) == ids(other.canaries(ALL))
    assert one.canaries(9) == one.canaries(ALL)[:9]
    few = source_of(config(guard=GuardConfig(tasks=9)))
    assert ids(few.canaries(ALL)) == ids(one.canaries(9))
    alone = source_of(config(categories=["base"], guard=GuardConfig(tasks=500)))
    assert (len(alone.canaries(ALL)), len(alone.pool())) == (139 // 4, 139 - 139 // 4)


def test_each_share_leaves_tasks_on_both_sides() -> None:
    few, most = (source_of(config(held_out_share=share)) for share in (1e-9, 1 - 1e-9))
    assert 1 <= len(few.held_out()) < 20
    assert 1 <= len(most.pool()) + len(most.canaries(ALL)) < 20


def test_a_reference_that_fails_is_left_out_with_its_reason() -> None:
    task = load_tasks(["base"])[0]
    turns = [turn.reference for turn in read_body(task.body).turns]
    assert fault(TrialRun(read_body(task.body), turns).play()) == ""
    assert fault(TrialRun(read_body(task.body), [(), *turns[1:]]).play()) == (
        "turn 1 fails: empty_turn_model_response"
    )
    wrong = [(*turns[0], "cat(file_name='nowhere')"), *turns[1:]]
    assert fault(TrialRun(read_body(task.body), wrong).play()).startswith(
        "turn 1 answers with an error: {"
    )


def test_the_benchmark_is_for_policies_with_a_chat_template() -> None:
    with pytest.raises(ConfigError, match=r"needs a policy\.model with a chat"):
        preflight.check(config())


def test_a_run_on_the_benchmark_is_built_from_its_source() -> None:
    settings = config(categories=["base", "miss_func"])
    source = source_of(settings)
    tools = {document.name for name in DOCUMENTS for document in tool_documents(name)}
    assert set(Bfcl(settings).tools()) == tools
    labels = environment_of(settings).labels()
    assert labels.keys() == set(ids(source.held_out()))
    assert {label for found in labels.values() for label in found} == {
        "one turn",
        "several turns",
        "base",
        "miss_func",
    }
