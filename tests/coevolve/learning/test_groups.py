import random

import pytest

from coevolve.learning.groups import Groups
from protocols.config import LearnerConfig
from protocols.objectives import Dapo
from protocols.rollouts import Rollout, VoidRollout
from tests.learning import rollout, void

CONFIG = LearnerConfig(groups_per_step=2, max_staleness=1)


def members(group: int, *passed: bool, version: int = 0) -> list[Rollout | VoidRollout]:
    return [
        rollout(group, index, size=len(passed), passed=won, version=version)
        for index, won in enumerate(passed)
    ]


def filled(groups: Groups, records: list[tuple[int, Rollout | VoidRollout]]) -> None:
    for sequence, message in records:
        groups.add(sequence, message)


def test_a_group_joins_the_batch_when_its_last_member_arrives():
    groups = Groups(CONFIG, step=1, consumed=0)
    first, second = members(0, True, False)
    groups.add(10, first)
    groups.judge()
    assert groups.filled == 0
    groups.add(14, second)
    groups.judge()
    assert groups.filled == 1


def test_groups_queue_in_the_order_in_which_they_were_completed():
    groups = Groups(CONFIG, step=1, consumed=0)
    early, late = members(0, True, False), members(1, True, False)
    filled(groups, [(1, early[0]), (2, late[0]), (3, late[1]), (4, early[1])])
    groups.judge()
    batch = groups.take_batch()
    assert [group.number for group in batch] == [1, 0]
    assert [group.sequences for group in batch] == [(2, 3), (1, 4)]


def test_rollouts_of_a_group_are_ordered_by_index_whatever_came_first():
    groups = Groups(CONFIG, step=1, consumed=0)
    a, b = members(0, True, False)
    c, d = members(1, True, False)
    filled(groups, [(1, b), (2, a), (3, c), (4, d)])
    groups.judge()
    assert [sequence for sequence, _ in groups.take_batch()[0].rollouts] == [2, 1]


def test_a_group_with_fewer_than_two_rollouts_to_compare_is_discarded_with_all_its_records():
    groups = Groups(CONFIG, step=1, consumed=5)
    filled(groups, [(1, void(0, 0, size=3)), (2, void(0, 1, size=3)), (3, rollout(0, 2, size=3))])
    (discard,) = groups.judge()
    assert discard.sequences == (1, 2, 3)
    assert discard.message.reason == "void"
    assert discard.message.rollouts == 1
    assert discard.message.groups_consumed == 6


def test_a_group_of_void_rollouts_alone_is_discarded():
    groups = Groups(CONFIG, step=9, consumed=0)
    filled(groups, [(1, void(0, 0, size=2)), (2, void(0, 1, size=2))])
    (discard,) = groups.judge()
    assert (discard.message.reason, discard.message.rollouts) == ("void", 0)


def test_void_members_are_acknowledged_with_the_group_and_left_out_of_its_rollouts():
    groups = Groups(CONFIG, step=1, consumed=0)
    filled(
        groups, [(1, rollout(0, 0, size=3)), (2, void(0, 1, size=3)), (3, rollout(0, 2, size=3))]
    )
    filled(groups, list(enumerate(members(1, True, False), start=4)))
    assert groups.judge() == ()
    group = groups.take_batch()[0]
    assert group.sequences == (1, 2, 3)
    assert [sequence for sequence, _ in group.rollouts] == [1, 3]


@pytest.mark.parametrize(("version", "stale"), [(2, True), (3, False)])
def test_staleness_is_measured_against_the_version_that_the_step_improves(
    version: int, *, stale: bool
):
    groups = Groups(CONFIG, step=5, consumed=0)
    filled(groups, list(enumerate(members(0, True, False, version=version), start=1)))
    discards = groups.judge()
    assert [discard.message.reason for discard in discards] == (["stale"] if stale else [])


def test_one_stale_rollout_makes_its_whole_group_stale():
    groups = Groups(CONFIG, step=5, consumed=0)
    filled(groups, [(1, rollout(0, 0, size=2, version=2)), (2, rollout(0, 1, size=2, version=4))])
    assert groups.judge()[0].message.reason == "stale"


def test_a_group_behind_a_full_batch_is_judged_for_the_next_step():
    groups = Groups(CONFIG, step=2, consumed=0)
    for number in range(3):
        filled(groups, list(enumerate(members(number, True, False), start=1 + 2 * number)))
    assert groups.judge() == ()
    groups.take_batch()
    assert [discard.message.group for discard in groups.judge()] == [2]


def test_all_pass_groups_are_replaced_only_where_the_run_asks_for_it():
    refill = LearnerConfig(groups_per_step=2, refill_zero_variance=True)
    for config, expected in ((CONFIG, []), (refill, ["zero_variance"])):
        groups = Groups(config, step=1, consumed=0)
        filled(groups, list(enumerate(members(0, True, True), start=1)))
        assert [discard.message.reason for discard in groups.judge()] == expected


def test_all_fail_groups_are_kept_for_imitation_although_they_have_no_variance():
    groups = Groups(LearnerConfig(groups_per_step=2, refill_zero_variance=True), step=1, consumed=0)
    filled(groups, list(enumerate(members(0, False, False), start=1)))
    assert groups.judge() == ()
    assert groups.filled == 1


@pytest.mark.parametrize("passed", [True, False])
def test_dapo_replaces_every_group_that_teaches_nothing(passed: bool):
    config = LearnerConfig(groups_per_step=2, objective=Dapo(), imitation_weight=0.0)
    groups = Groups(config, step=1, consumed=0)
    filled(groups, list(enumerate(members(0, passed, passed), start=1)))
    assert [discard.message.reason for discard in groups.judge()] == ["zero_variance"]


def test_a_redelivered_record_changes_nothing():
    groups = Groups(CONFIG, step=1, consumed=0)
    records = list(enumerate(members(0, True, False), start=1))
    filled(groups, records)
    groups.judge()
    filled(groups, records)
    groups.judge()
    assert groups.filled == 1
    assert groups.held == 2


def test_what_is_missing_is_the_fewest_records_that_can_fill_the_batch():
    groups = Groups(CONFIG, step=1, consumed=0)
    assert groups.missing(3) == 6
    filled(groups, [(1, rollout(0, 0, size=3)), (2, rollout(1, 0, size=3))])
    groups.add(3, rollout(0, 1, size=3))
    assert groups.missing(3) == 3
    groups.add(4, rollout(0, 2, size=3))
    groups.judge()
    assert groups.missing(3) == 2
    filled(groups, [(5, rollout(1, 1, size=3)), (6, rollout(1, 2, size=3))])
    groups.judge()
    assert groups.missing(3) == 0


def test_a_batch_is_not_handed_over_before_it_is_full():
    groups = Groups(CONFIG, step=1, consumed=0)
    with pytest.raises(ValueError, match="needs 2 groups, it has 0"):
        groups.take_batch()


def journal(seed: int) -> list[tuple[int, Rollout | VoidRollout]]:
    """30 groups of 3 whose members arrive mixed up, some void, at slowly rising versions."""
    rng = random.Random(seed)
    arrivals = sorted((group + rng.random() * 6, group, i) for group in range(30) for i in range(3))
    return [
        (
            sequence,
            void(group, index, size=3)
            if rng.random() < 0.3
            else rollout(group, index, size=3, passed=rng.random() < 0.5, version=group // 6),
        )
        for sequence, (_, group, index) in enumerate(arrivals, start=1)
    ]


def play(
    records: list[tuple[int, Rollout | VoidRollout]], chunks: random.Random, *, dies: bool
) -> tuple[list[tuple[str, ...]], list[tuple[str, str]]]:
    """Return the batches and discards of a learner that takes ``records`` in random portions.

    One that ``dies`` loses its memory after random portions and gets all unfinished records anew.
    """
    config = LearnerConfig(groups_per_step=2, max_staleness=1, refill_zero_variance=True)
    batches: list[tuple[str, ...]] = []
    discarded: list[tuple[str, str]] = []
    done: set[int] = set()
    groups, consumed, cursor = Groups(config, step=1, consumed=0), 0, 0
    while True:
        for discard in groups.judge():
            discarded.append((discard.message.group_id, discard.message.reason))
            done.update(discard.sequences)
            consumed = discard.message.groups_consumed
        if groups.full:
            batch = groups.take_batch()
            batches.append(tuple(group.group_id for group in batch))
            done.update(s for group in batch for s in group.sequences)
            consumed = groups.consumed
            continue
        if dies and chunks.random() < 0.2:
            groups, cursor = Groups(config, step=len(batches) + 1, consumed=consumed), 0
        if cursor == len(records):
            return batches, discarded
        portion = chunks.randint(1, 9)
        for sequence, message in records[cursor : cursor + portion]:
            if sequence not in done:
                groups.add(sequence, message)
        cursor = min(len(records), cursor + portion)


@pytest.mark.parametrize("seed", range(10))
def test_batches_and_discards_follow_from_the_journals_order_alone(seed: int):
    records = journal(seed)
    expected = play(records, random.Random(0), dies=False)
    assert len(expected[0]) > 3
    assert len(expected[1]) > 3
    for number in range(1, 6):
        assert play(records, random.Random(number), dies=True) == expected
