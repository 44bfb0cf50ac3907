from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.curriculum.pool_task import NEW
from coevolve.curriculum.schedule import Schedule
from coevolve.curriculum.task_pool import Pool
from protocols.config import RunConfig
from protocols.evolution import NO_READING, Reading
from protocols.journal import Message
from protocols.rollouts import Writer
from tests.coevolve.curriculum.plain_pool import PlainPool
from tests.evolving import (
    CONFIRMED,
    admitted,
    discarded,
    requested,
    seed,
    signal,
    stepped,
    verdict,
    visit,
)

CONFIG = RunConfig(name="test")


def of(*, evolve_every: int = 0, imitation_weight: float = 8.0, **rules: float) -> RunConfig:
    tree = msgspec.to_builtins(CONFIG)
    tree["pool"] |= rules
    tree["learner"]["imitation"]["weight"] = imitation_weight
    tree["evolve_every"] = evolve_every
    return msgspec.convert(tree, RunConfig)


def folded(messages: Iterable[Message], config: RunConfig = CONFIG) -> Pool:
    pool = Pool(config)
    for message in messages:
        pool.fold(message)
    return pool


def made(task_id: str, successes: int = 2, reading: Reading = NO_READING) -> Message:
    """Return a verdict that admits a task after ``successes`` of four probes."""
    return verdict(f"c-{task_id}", "s", admitted(task_id, successes), reading=reading)


def test_the_weight_of_a_learnable_task_is_as_computed_by_hand():
    fresh = folded([made("a", successes=2)])
    assert fresh.weights() == {"a": pytest.approx(NEW * 4 * (3 * 3) / (6 * 7))}
    fresh.fold(visit("a", 4))  # probes count half: Beta(1 + 1 + 4, 1 + 1 + 4)
    assert fresh.weights() == {"a": pytest.approx(4 * (6 * 6) / (12 * 13) / 2)}
    fresh.fold(visit("a", 7))  # Beta(1 + 2.5 + 7, 1 + 2.5 + 1)
    assert fresh.weights() == {"a": pytest.approx(4 * (10.5 * 4.5) / (15 * 16) / 3)}


def test_the_imitation_value_of_an_unsolved_task_falls_with_every_visit():
    unsolved = [made("a", 0, CONFIRMED)]
    imitating = folded(unsolved)
    assert imitating.weights() == {"a": pytest.approx(NEW * (4 * 5 / (6 * 7) + 0.5))}
    imitating.fold(visit("a", 0))  # Beta(1, 1 + 2 + 8)
    assert imitating.weights() == {"a": pytest.approx((4 * 11 / (12 * 13) + 0.25) / 2)}
    imitating.fold(visit("a", 1))  # Beta(1 + 1, 1 + 5 + 7), solved
    assert imitating.weights() == {"a": pytest.approx(4 * (2 * 13) / (15 * 16) / 3)}
    alone = folded(unsolved, of(imitation_weight=0.0))
    assert alone.weights() == {"a": pytest.approx(NEW * 4 * 5 / (6 * 7))}


def test_a_reference_has_no_imitation_value_until_a_reader_or_a_success_confirms_it():
    pool = folded([seed("s"), made("read", 0, CONFIRMED), made("solved", 1), made("unread", 0)])
    assert [pool.task(name).is_confirmed for name in ("s", "read", "solved", "unread")] == [
        *(True, True, True, False)
    ]
    assert pool.weights()["unread"] == pytest.approx(NEW * 4 * 5 / (6 * 7))
    pool.fold(visit("unread", 1))
    assert pool.task("unread").is_confirmed


def test_an_unvisited_task_outweighs_every_visited_one():
    weakest_new = folded([made("a", successes=3)]).weights()["a"]
    best_seen = folded([made("a"), visit("a", 4)]).weights()["a"]
    assert weakest_new > 4 * best_seen


def test_a_task_is_retired_when_it_was_mastered_in_so_many_visits_in_a_row():
    pool = folded([seed("s"), made("a"), visit("a", 8), visit("a", 7), visit("a", 8)])
    assert pool.live == ("s", "a")
    pool.fold(visit("a", 0, rollouts=0))  # all failed: says nothing
    assert pool.live == ("s", "a")
    pool.fold(visit("a", 8))
    assert (pool.live, pool.retired) == (("s",), ("a",))
    assert pool.weights() == {}


def test_mastered_seed_tasks_are_retired_too():
    pool = folded([seed("s"), seed("t"), visit("s", 8), visit("s", 6, rollouts=6)])
    assert (pool.live, pool.retired) == (("t",), ("s",))


def test_a_forgotten_task_lives_again_as_if_it_were_new():
    config = of(retire_after=1)
    pool = folded([made("a"), visit("a", 8), visit("a", 1)], config)
    assert pool.retired == ("a",)
    pool.fold(signal("s1", "a", kind="boundary"))
    pool.fold(signal("s2", kind="forgetting", pattern="ls"))
    assert pool.retired == ("a",)
    pool.fold(signal("s3", "a"))
    assert pool.live == ("a",)
    # Beta(1 + (1 + 8) / 2 + 1, 1 + 1 / 2 + 7), unvisited since
    assert pool.weights() == {"a": pytest.approx(NEW * 4 * (6.5 * 8.5) / (15 * 16))}
    pool.fold(visit("a", 8))
    assert pool.retired == ("a",)


def test_a_live_task_is_not_new_again_when_it_was_forgotten():
    visited = [made("a"), visit("a", 4), visit("a", 8)]
    pool = folded([*visited, signal("s", "a"), visit("a", 8)])
    assert pool.weights() == folded([*visited, visit("a", 8)]).weights()
    assert pool.retired == ("a",)


def test_a_candidate_that_was_mastered_in_its_probes_begins_retired():
    pool = folded([made("a", successes=4), made("b")])
    assert (pool.live, pool.retired) == (("b",), ("a",))


def test_beyond_capacity_the_task_that_teaches_least_is_retired():
    pool = folded([made("a"), made("b"), visit("a", 4), visit("b", 8)], of(capacity=2))
    pool.fold(made("c"))
    assert (pool.live, pool.retired) == (("a", "c"), ("b",))
    pool.fold(signal("s", "b"))
    assert (pool.live, pool.retired) == (("b", "c"), ("a",))


def test_seed_tasks_take_up_no_capacity():
    pool = folded([*(seed(f"s{n}") for n in range(5)), made("a")], of(capacity=1))
    assert len(pool.live) == 6


def test_beyond_its_capacity_the_task_that_was_mastered_longest_ago_leaves_for_good():
    pool = folded([seed("s"), *map(made, "abc")], of(retired_capacity=2, retire_after=1))
    for task in ("a", "b", "a", "s", "c"):
        pool.fold(visit(task, 8))
    assert (pool.life("b"), pool.retired) == (None, ("s", "a", "c"))
    for message in (signal("s", "b"), visit("b", 8), requested(0, "b")):
        pool.fold(message)
    assert (pool.life("b"), len(pool), pool.synthesized_groups) == (None, 3, 1)


def test_the_size_of_the_pool_is_bounded_however_many_tasks_were_made():
    config = of(capacity=3, retired_capacity=5)
    pool, sizes = folded([seed("s")], config), list[int]()
    for number in range(6_000):
        pool.fold(made(f"{number:05}"))
        if number % 3 == 0 and pool.retired:
            pool.fold(signal("s", pool.retired[0]))
        if number in (3_000, 5_999):
            sizes.append(len(msgspec.msgpack.encode(pool.state)))
    assert len(pool) == 1 + 8
    assert sizes[1] == pytest.approx(sizes[0], abs=30)
    drawn = {pool.draw(np.random.default_rng(number)) for number in range(100)}
    assert drawn <= {*pool.live, *pool.retired}


def draws(pool: Pool, count: int = 400) -> Counter[str]:
    return Counter(pool.draw(np.random.default_rng((7, number))) for number in range(count))


def test_synthesized_tasks_are_drawn_by_weight_and_seed_tasks_uniformly():
    only_made = of(synthetic_share=1.0, retired_share=0.0)
    pool = folded([seed("s"), seed("t"), made("a"), made("b"), visit("b", 4)], only_made)
    drawn, weights = draws(pool), pool.weights()
    assert set(drawn) == {"a", "b"}
    share = weights["b"] / (weights["a"] + weights["b"])
    assert drawn["b"] / 400 == pytest.approx(share, abs=0.05)
    drawn = draws(folded([seed("s"), seed("t")]))
    assert drawn["s"] / 400 == pytest.approx(0.5, abs=0.08)


def test_retired_tasks_are_drawn_at_their_share_to_probe_for_forgetting():
    config = of(synthetic_share=1.0, retired_share=0.1)
    gone = [visit(task, 8) for task in ("t", "b") for _ in range(2)]
    pool = folded([seed("s"), seed("t"), made("a"), made("b"), *gone], config)
    drawn = draws(pool, 1000)
    assert set(drawn) == {"a", "b", "t"}
    assert (drawn["b"] + drawn["t"]) / 1000 == pytest.approx(0.1, abs=0.03)


def test_a_task_in_flight_is_not_drawn_again_until_its_group_is_consumed():
    config = of(synthetic_share=1.0, retired_share=0.0)
    pool = folded([seed("s"), seed("t"), made("a"), requested(0, "a")], config)
    assert set(draws(pool)) == {"s", "t"}
    pool.fold(requested(1, "s"))
    assert set(draws(pool)) == {"t"}
    pool.fold(discarded(0))
    assert set(draws(pool)) == {"a"}


def test_a_step_frees_the_tasks_of_all_its_groups():
    config = of(synthetic_share=1.0, retired_share=0.0)
    asked = [requested(number, task) for number, task in enumerate("abc")]
    pool = folded([seed("s"), *map(made, "abc"), *asked], config)
    step = stepped(1, "a", "b")
    groups = [msgspec.structs.replace(each, group=n) for n, each in enumerate(step.groups)]
    pool.fold(msgspec.structs.replace(step, groups=tuple(groups)))
    assert set(draws(pool)) == {"a", "b"}


def test_the_journal_has_to_keep_made_tasks_that_are_in_the_pool_or_in_flight():
    config = of(retired_capacity=1, retire_after=1)
    pool = folded([seed("s"), *map(made, "ab"), requested(0, "a")], config)
    for task in "ab":
        pool.fold(visit(task, 8))
    assert (pool.life("a"), pool.retired) == (None, ("b",))
    assert sorted(key for _, key in pool.keeps) == ["a", "b"]
    pool.fold(discarded(0))
    assert [key for _, key in pool.keeps] == ["b"]


def test_a_seed_task_is_drawn_whatever_is_retired_or_in_flight():
    mastered = [visit("s", 8), visit("s", 8)]
    assert set(draws(folded([seed("s"), requested(0, "s")]))) == {"s"}
    assert set(draws(folded([seed("s"), *mastered, requested(0, "s")], of(retired_share=0.0)))) == {
        "s"
    }
    with pytest.raises(ValueError, match="needs a seed task"):
        Pool(CONFIG).draw(np.random.default_rng(0))


def test_a_held_out_task_never_joins():
    assert folded([msgspec.structs.replace(seed("s"), split="held_out")]).live == ()


def test_in_cycles_admitted_tasks_join_with_the_next_cycles_first_group():
    config = of(evolve_every=5)
    start = [seed("s"), requested(0, "s"), made("a"), requested(1, "s", version=4)]
    pool = folded(start, config)
    assert pool.live == ("s",)
    pool.join()
    assert pool.live == ("s", "a")
    assert folded([*start, requested(2, "s", version=5)], config).live == ("s", "a")
    pool.fold(requested(2, "s", version=5))
    pool.fold(made("b"))
    pool.fold(requested(3, "s", version=5))
    assert pool.live == ("s", "a")


def test_a_visit_of_a_waiting_task_retires_it_only_when_it_joins():
    config = of(evolve_every=5, retire_after=1, retired_capacity=1)
    start = [seed("s"), requested(0, "s"), made("a"), made("b"), visit("a", 8), visit("b", 8)]
    pool = folded(start, config)
    assert (pool.life("a"), pool.retired) == ("waiting", ())
    pool.join()
    assert (pool.life("a"), pool.retired) == (None, ("b",))


def test_tasks_admitted_between_a_decision_and_its_record_join_as_in_the_journal():
    config = of(evolve_every=5)
    start = [seed("s"), requested(0, "s"), made("a")]
    opening, later = requested(1, "s", version=5), requested(2, "s", version=5)
    live = folded([*start, opening, later, made("b"), opening, later], config)
    rebuilt = folded([*start, made("b"), opening, later], config)
    assert live.live == rebuilt.live == ("s", "a", "b")
    assert live.groups == rebuilt.groups == 3


def test_a_curriculum_without_the_oldest_requests_goes_on_after_the_newest():
    later = [requested(7, "s"), visit("s", 3), stepped(1, "s"), discarded(6), requested(8, "m")]
    pool, counts = folded([seed("s"), made("m"), *later]), Schedule.of(CONFIG)
    for message in later:
        counts.fold(message)
    assert (pool.groups, counts.issued) == (9, 9)
    assert (pool.life("m"), pool.live) == ("live", ("s", "m"))


EVENTS = st.lists(
    st.one_of(
        st.just(("ask",)),
        st.just(("consume",)),
        st.tuples(st.just("admit"), st.integers(0, 4)),
        st.tuples(st.just("visit"), st.integers(0, 30), st.sampled_from((0, 3, 8))),
        st.tuples(st.just("forget"), st.integers(0, 30)),
    ),
    max_size=80,
)


def happened(
    what: str, numbers: list[int], number: int, pool: Pool, drawn: str, consumed: int
) -> Message:
    """Return the message of one of `EVENTS`, number ``number``, in a pool that drew ``drawn``."""
    tasks = sorted({*pool.live, *pool.retired})
    match what:
        case "ask":
            return requested(pool.groups, drawn)
        case "consume":
            return discarded(consumed)
        case "admit":
            return made(f"m{number}", successes=numbers[0])
        case "visit":
            return visit(tasks[numbers[0] % len(tasks)], numbers[1])
        case _:
            return signal(f"x{number}", tasks[numbers[0] % len(tasks)])


@given(
    events=EVENTS,
    share=st.sampled_from((0.0, 0.3, 0.75, 1.0)),
    retired_share=st.sampled_from((0.0, 0.5)),
    capacity=st.integers(1, 4),
    kept=st.integers(0, 80),
)
def test_synthesized_tasks_never_exceed_their_share_also_when_the_pool_is_folded_anew(
    events: list[tuple[Any, ...]], share: float, retired_share: float, capacity: int, kept: int
):
    config = of(synthetic_share=share, retired_share=retired_share, capacity=capacity)
    journal: list[Message] = [seed(f"s{number}") for number in range(3)]
    pool = folded(journal, config)
    consumed = 0
    for number, (what, *numbers) in enumerate(events):
        if number == kept:
            pool = folded(journal, config)
        drawn = pool.draw(np.random.default_rng((1, pool.groups)))
        message = happened(what, numbers, number, pool, drawn, consumed)
        consumed += what == "consume" and consumed < pool.groups
        journal.append(message)
        pool.fold(message)
        assert pool.synthesized_groups <= share * pool.groups
        assert len(pool.weights()) <= capacity
    again = folded(journal, config)
    assert again.weights() == pool.weights()
    assert (again.live, again.retired) == (pool.live, pool.retired)
    generator = np.random.default_rng(3), np.random.default_rng(3)
    assert again.draw(generator[0]) == pool.draw(generator[1])


@given(
    events=EVENTS,
    share=st.sampled_from((0.3, 0.75, 1.0)),
    retired_share=st.sampled_from((0.0, 0.5, 1.0)),
    capacity=st.integers(1, 40),
    retired_capacity=st.integers(1, 40),
)
def test_draws_and_admissions_equal_those_of_a_pool_in_plain_lists(
    events: list[tuple[Any, ...]],
    share: float,
    retired_share: float,
    capacity: int,
    retired_capacity: int,
):
    config = of(
        synthetic_share=share,
        retired_share=retired_share,
        capacity=capacity,
        retired_capacity=retired_capacity,
    )
    seeds: list[Message] = [seed(f"s{number}") for number in range(3)]
    pool, plain, consumed = folded(seeds, config), PlainPool(config), 0
    for message in seeds:
        plain.fold(message)
    for number, (what, *numbers) in enumerate(events):
        drawn = pool.draw(np.random.default_rng((1, number)))
        assert drawn == plain.draw(np.random.default_rng((1, number)))
        message = happened(what, numbers, number, pool, drawn, consumed)
        consumed += what == "consume" and consumed < pool.groups
        pool.fold(message)
        plain.fold(message)


def test_rollouts_of_other_authors_retire_no_task():
    config = of(retire_after=2)
    lives: dict[Writer, str] = {"policy": "retired", "teacher": "live", "grammar": "live"}
    for author, life in lives.items():
        mastered = msgspec.structs.replace(visit("m", 8), author=author)
        assert folded([made("m"), mastered, mastered], config).task("m").life == life
    later = msgspec.structs.replace(visit("m", 8), task_id="m/1")
    assert folded([made("m"), later, later], config).task("m").life == "live"
