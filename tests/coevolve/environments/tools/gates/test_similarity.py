import time
from collections.abc import Sequence
from itertools import islice

import msgspec
import pytest

from coevolve.environments.tools.bfcl.catalogue import load_tasks
from coevolve.environments.tools.filesystem.grammar import held_out_tasks, static_pool, uniform_task
from coevolve.environments.tools.gates.similarity import Likeness, Likenesses, likeness
from coevolve.environments.tools.task import ToolTask, ToolTurn, read_body
from protocols.tasks import Task, body_of
from tests.planted import copies, draws, said, some_file, with_turns

THRESHOLD = 0.8


def known(tasks: Sequence[Task], threshold: float = THRESHOLD) -> Likenesses:
    found = Likenesses(threshold)
    for task in tasks:
        found.add(task.task_id, task.body)
    return found


def degree(one: Likeness, other: Likeness) -> float:
    """Return the similarity of two tasks by its definition, without an index."""

    def jaccard(a: frozenset[str], b: frozenset[str]) -> float:
        return len(a & b) / len(a | b)

    same_request = jaccard(one.request, other.request) if one.names else 0.0
    same_place = jaccard(one.world, other.world) >= THRESHOLD
    return max(same_request, jaccard(one.calls, other.calls) if same_place else 0.0)


def another_world(body: ToolTask) -> ToolTask:
    world = next(
        read_body(task.body).world for task in draws(5) if read_body(task.body).world != body.world
    )
    return msgspec.structs.replace(body, world=world)


def test_few_fresh_tasks_are_near_duplicates_of_held_out_ones_or_of_a_large_pool() -> None:
    held_out = known(held_out_tasks())
    pool = known([*static_pool(0, 150), *(uniform_task(1, n) for n in range(850))])
    fresh = [uniform_task(2, n).body for n in range(500)]
    assert sum(held_out.nearest(each) is not None for each in fresh) <= 0.02 * len(fresh)
    assert sum(pool.nearest(each) is not None for each in fresh) <= 0.05 * len(fresh)


def test_copies_are_near_duplicates_however_they_are_worded() -> None:
    tasks = held_out_tasks()
    held_out = known(tasks)
    for task, body in zip(tasks, copies(tasks), strict=True):
        match = held_out.nearest(body_of(body))
        assert match is not None, (read_body(task.body).turns, body.turns)
        assert match.degree >= THRESHOLD


def test_a_request_that_names_something_is_the_same_in_another_world() -> None:
    body = read_body(next(draws(1)).body)
    file = some_file(body)
    asked = with_turns(body, [said(f"Delete '{file}'.", f"rm(file_name='{file}')")])
    pool = Likenesses(THRESHOLD)
    pool.add("x", body_of(asked))
    elsewhere = another_world(asked)
    assert pool.nearest(body_of(elsewhere)) is not None
    differently = with_turns(elsewhere, [said(f"Erase '{file}'.", f"rm(file_name='{file}')")])
    assert pool.nearest(body_of(differently)) is None
    positional = with_turns(elsewhere, [said(f"Delete '{file}'!", f"rm('{file}')")])
    assert pool.nearest(body_of(positional)) is not None


def test_a_request_that_names_nothing_is_the_same_in_the_same_world_alone() -> None:
    body = read_body(next(draws(1)).body)
    for turn in (said("List what is here.", "ls()"), said("Go back up.", "cd(folder='..')")):
        asked = with_turns(body, [turn])
        pool = Likenesses(THRESHOLD)
        pool.add("x", body_of(asked))
        assert pool.nearest(body_of(another_world(asked))) is None
        again = with_turns(asked, [said("What do I see?", *turn.reference)])
        assert pool.nearest(body_of(again)) is not None
        nearly = msgspec.structs.replace(asked, world=asked.world.replace("red", "blue", 1))
        assert pool.nearest(body_of(nearly)) is not None


def test_another_name_makes_another_task() -> None:
    others = 0
    for task in islice(draws(9), 40):
        pool = known([task])
        turns = [
            said(
                turn.instruction.replace(".", "_2."),
                *(call.replace(".", "_2.") for call in turn.reference),
            )
            for turn in read_body(task.body).turns
        ]
        changed = with_turns(read_body(task.body), turns)
        if likeness(changed).calls.isdisjoint(likeness(read_body(task.body)).calls):
            others += 1
            assert pool.nearest(body_of(changed)) is None
    assert others > 5


def test_the_index_finds_what_comparing_with_every_task_finds() -> None:
    tasks = [*static_pool(3, 150), *load_tasks(["base", "miss_func"])]
    likenesses = [likeness(read_body(task.body)) for task in tasks]
    fresh = [*copies(static_pool(3, 150))]
    fresh += [read_body(uniform_task(4, n).body) for n in range(100)]
    pool = known(tasks)
    for asked in fresh:
        mine = likeness(asked)
        best = max(degree(mine, each) for each in likenesses)
        match = pool.nearest(body_of(asked))
        assert (match.degree if match else None) == (best if best >= THRESHOLD else None)


def test_a_held_out_request_within_a_longer_task_overlaps_and_so_does_a_part_of_one() -> None:
    body = read_body(next(draws(1)).body)
    file = some_file(body)
    delete = said(f"Delete '{file}'.", f"rm(file_name='{file}')")
    make = said("Create a folder 'zoo'.", "mkdir(dir_name='zoo')")
    fill = said("Create an empty file 'ape.txt'.", "touch(file_name='ape.txt')")
    look = said("List what is here.", "ls()")
    held_out = known([])
    held_out.add("one", body_of(with_turns(body, [delete])))
    held_out.add("two", body_of(with_turns(body, [make, look, fill])))
    elsewhere = another_world(body)

    def overlaps(*turns: ToolTurn) -> bool:
        return held_out.overlapping(body_of(with_turns(elsewhere, turns))) is not None

    assert overlaps(look, delete, said("Go into 'zoo'.", "cd(folder='zoo')"))
    assert overlaps(make, look)
    assert overlaps(fill, look, make)
    assert not overlaps(look)
    assert not overlaps(make, said("Go into 'zoo'.", "cd(folder='zoo')"))
    held_out.discard("one")
    assert not overlaps(delete)


def test_what_is_forgotten_is_no_longer_found() -> None:
    task = next(draws(2))
    pool = known([task])
    assert len(pool) == 1
    pool.add(task.task_id, task.body)
    pool.discard(task.task_id)
    pool.discard("never added")
    assert len(pool) == 0
    assert pool.nearest(task.body) is None


def test_a_threshold_counts_features_without_rounding_them_away() -> None:
    pool = Likenesses(0.7)
    ten = frozenset(f"{n}" for n in range(10))
    seven = frozenset(f"{n}" for n in range(7))
    pool.remember("x", Likeness(request=seven, calls=seven, world=frozenset("w"), names=True))
    asked = Likeness(request=ten, calls=ten, world=frozenset("v"), names=True)
    match = pool.nearest_to(asked)
    assert match is not None
    assert match.degree == pytest.approx(0.7)


def test_a_pool_of_a_thousand_is_searched_in_less_than_a_millisecond() -> None:
    pool = known([uniform_task(1, n) for n in range(1000)])
    fresh = [likeness(read_body(uniform_task(2, n).body)) for n in range(200)]
    started = time.process_time()
    for each in fresh:
        pool.nearest_to(each)
    assert time.process_time() - started < 1e-3 * len(fresh)
