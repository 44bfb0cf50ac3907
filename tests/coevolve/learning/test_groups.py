import random
from collections.abc import Iterable

import msgspec
import pytest

from coevolve.learning.batch import trained_group
from coevolve.learning.groups import Groups, use_of
from protocols.config import LearnerConfig
from protocols.learner_config import ImitationConfig
from protocols.rollouts import FailedRollout, Rollout
from tests.learning import failed, rollout

CONFIG = LearnerConfig(groups_per_step=2, max_staleness=1, refill_batches=0)


def members(group: int, *passed: bool, version: int = 0) -> list[Rollout | FailedRollout]:
    return [
        rollout(group, index, size=len(passed), passed=won, version=version)
        for index, won in enumerate(passed)
    ]


def filled(groups: Groups, records: list[tuple[int, Rollout | FailedRollout]]) -> None:
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
    filled(
        groups, [(1, failed(0, 0, size=3)), (2, failed(0, 1, size=3)), (3, rollout(0, 2, size=3))]
    )
    (discard,) = groups.judge()
    assert discard.sequences == (1, 2, 3)
    assert discard.message.reason == "failed"
    assert discard.message.rollouts == 1
    assert discard.message.groups_consumed == 6


def test_a_group_of_failed_rollouts_alone_is_discarded():
    groups = Groups(CONFIG, step=9, consumed=0)
    filled(groups, [(1, failed(0, 0, size=2)), (2, failed(0, 1, size=2))])
    (discard,) = groups.judge()
    assert (discard.message.reason, discard.message.rollouts) == ("failed", 0)


def test_the_record_of_a_group_names_its_instance_and_its_rollouts():
    groups = Groups(LearnerConfig(groups_per_step=1), step=1, consumed=0)
    whole = members(0, True, False, True)
    attempts = [
        msgspec.structs.replace(each, instance=5) for each in whole[:2] if isinstance(each, Rollout)
    ]
    filled(groups, [(3, failed(0, 2, size=3)), *enumerate(attempts, 4)])
    groups.judge()
    [group] = groups.take_batch()
    record = trained_group(group, LearnerConfig())
    assert (record.instance, record.sequences, record.successes) == (5, (4, 5), 1)
    assert record.use == "policy_gradient"


def test_failed_members_are_acknowledged_with_the_group_and_left_out_of_its_rollouts():
    groups = Groups(CONFIG, step=1, consumed=0)
    filled(
        groups, [(1, rollout(0, 0, size=3)), (2, failed(0, 1, size=3)), (3, rollout(0, 2, size=3))]
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


def test_all_pass_groups_are_replaced_unless_the_run_asks_for_none():
    refill = LearnerConfig(groups_per_step=2, refill_batches=99)
    for config, expected in ((CONFIG, []), (refill, ["zero_variance"])):
        groups = Groups(config, step=1, consumed=0)
        filled(groups, list(enumerate(members(0, True, True), start=1)))
        assert [discard.message.reason for discard in groups.judge()] == expected


def test_all_fail_groups_are_kept_for_imitation_although_they_have_no_variance():
    groups = Groups(LearnerConfig(groups_per_step=2, refill_batches=99), step=1, consumed=0)
    filled(groups, list(enumerate(members(0, False, False), start=1)))
    assert groups.judge() == ()
    assert groups.filled == 1


def test_an_all_fail_group_whose_reference_is_not_confirmed_teaches_nothing():
    config = LearnerConfig(groups_per_step=2, refill_batches=99)
    groups = Groups(config, step=1, consumed=0)
    for number, imitable in enumerate((True, False)):
        failures = (
            rollout(number, index, size=2, passed=False, imitable=imitable) for index in range(2)
        )
        filled(groups, list(enumerate(failures, start=1 + 2 * number)))
    assert [(each.message.group, each.message.reason) for each in groups.judge()] == [
        (1, "zero_variance")
    ]


@pytest.mark.parametrize("passed", [True, False])
def test_dapo_replaces_every_group_that_teaches_nothing(passed: bool):
    config = LearnerConfig(
        groups_per_step=2, objective={"kind": "dapo"}, imitation=ImitationConfig(weight=0.0)
    )
    groups = Groups(config, step=1, consumed=0)
    filled(groups, list(enumerate(members(0, passed, passed), start=1)))
    assert [discard.message.reason for discard in groups.judge()] == ["zero_variance"]


REFILL = LearnerConfig(groups_per_step=2, max_staleness=1, refill_batches=2)
"""Each step replaces up to four groups."""


def complete(groups: Groups, numbers: Iterable[int], *passed: bool, version: int = 0) -> None:
    """Add whole groups, whose records' sequences follow from their numbers."""
    for number in numbers:
        records = members(number, *passed, version=version)
        filled(groups, list(enumerate(records, start=1 + 2 * number)))


def discarded(groups: Groups) -> list[tuple[int, str]]:
    return [(discard.message.group, discard.message.reason) for discard in groups.judge()]


def test_beyond_the_bound_groups_that_teach_nothing_join_the_batch():
    groups = Groups(REFILL, step=1, consumed=0)
    complete(groups, range(3), True, True)
    complete(groups, [3], True, False)
    complete(groups, range(4, 7), True, True)
    assert discarded(groups) == [(number, "zero_variance") for number in (0, 1, 2, 4)]
    assert [group.number for group in groups.take_batch()] == [3, 5]
    assert groups.consumed == 6


def test_each_step_may_replace_as_many_again():
    groups = Groups(REFILL, step=1, consumed=0)
    complete(groups, range(12), True, True)
    assert [number for number, _ in discarded(groups)] == [0, 1, 2, 3]
    assert [group.number for group in groups.take_batch()] == [4, 5]
    assert [number for number, _ in discarded(groups)] == [6, 7, 8, 9]
    assert [group.number for group in groups.take_batch()] == [10, 11]


def test_groups_that_are_discarded_for_another_reason_are_not_counted_as_replaced():
    groups = Groups(REFILL, step=5, consumed=0)
    complete(groups, range(5), True, True, version=1)
    complete(groups, range(5, 10), True, True, version=4)
    assert discarded(groups) == [(number, "stale") for number in range(5)] + [
        (number, "zero_variance") for number in range(5, 9)
    ]
    assert groups.filled == 1


@pytest.mark.parametrize("replaced", range(6))
def test_groups_replaced_before_a_restart_count_towards_the_bound(replaced: int):
    groups = Groups(REFILL, step=1, consumed=replaced, replaced=replaced)
    complete(groups, range(6), True, True)
    left = max(0, 4 - replaced)
    assert discarded(groups) == [(number, "zero_variance") for number in range(left)]
    assert [group.number for group in groups.take_batch()] == [left, left + 1]
    assert groups.consumed == replaced + left + 2


def test_without_an_objective_groups_that_differ_fill_the_batch():
    config = msgspec.structs.replace(REFILL, objective={"kind": "none"})
    groups = Groups(config, step=1, consumed=0)
    complete(groups, [0], True, True)
    complete(groups, [1, 2], True, False)
    assert discarded(groups) == [(0, "zero_variance")]
    batch = groups.take_batch()
    assert [use_of(group, config) for group in batch] == ["policy_gradient"] * 2


def test_a_group_of_which_an_abandoned_version_may_have_written_some_is_discarded():
    config = LearnerConfig(groups_per_step=3, max_staleness=9, refill_batches=0)
    groups = Groups(config, step=7, consumed=0, abandoned=(3, 4))
    complete(groups, [0], True, False, version=2)
    complete(groups, [1], True, False, version=3)
    complete(groups, [2], True, False, version=4)
    complete(groups, [3], True, False, version=5)
    # From version 2 to version 5; then a rollout from version 4 to 5.
    filled(groups, [(9, rollout(4, 0, size=2, version=2)), (10, rollout(4, 1, size=2, version=5))])
    long = msgspec.structs.replace(rollout(5, 1, size=2, version=5), version_min=4)
    filled(groups, [(11, rollout(5, 0, size=2, version=5)), (12, long)])
    complete(groups, [6], True, False, version=6)
    assert discarded(groups) == [(number, "abandoned") for number in (1, 2, 4, 5)]
    assert [group.number for group in groups.take_batch()] == [0, 3, 6]


def test_failed_comes_before_abandoned_and_abandoned_before_stale_and_equal_rewards():
    groups = Groups(REFILL, step=5, consumed=0, abandoned=(1,))
    filled(groups, [(1, failed(0, 0, size=2)), (2, rollout(0, 1, size=2, version=1))])
    complete(groups, [1], True, True, version=1)
    complete(groups, [2], True, True, version=2)
    assert discarded(groups) == [(0, "failed"), (1, "abandoned"), (2, "stale")]


def test_a_step_back_judges_the_batch_so_far_once_more_and_needs_no_groups():
    groups = Groups(msgspec.structs.replace(REFILL, max_staleness=2), step=4, consumed=6)
    complete(groups, range(4), True, True, version=3)
    complete(groups, [4], True, False, version=2)
    assert len(discarded(groups)) == 4
    assert (groups.filled, groups.consumed, groups.held) == (1, 10, 2)

    groups.abandon(range(3, 4))
    assert (groups.filled, groups.consumed, groups.held) == (0, 10, 2)
    assert discarded(groups) == []
    assert groups.filled == 1
    complete(groups, [5], True, False, version=3)
    complete(groups, range(6, 11), True, True, version=4)
    # As many groups may be replaced as in any step.
    assert discarded(groups) == [
        (5, "abandoned"),
        *((number, "zero_variance") for number in range(6, 10)),
    ]
    assert [group.number for group in groups.take_batch()] == [4, 10]


def test_a_step_back_makes_waiting_groups_abandoned_or_stale():
    groups = Groups(msgspec.structs.replace(CONFIG, groups_per_step=3), step=4, consumed=0)
    complete(groups, [0], True, False, version=2)
    complete(groups, [1], True, False, version=3)
    assert discarded(groups) == []
    assert groups.filled == 2
    groups.abandon([3])
    assert discarded(groups) == [(0, "stale"), (1, "abandoned")]
    assert groups.consumed == 2
    assert groups.held == 0


def test_a_redelivered_record_changes_nothing():
    groups = Groups(CONFIG, step=1, consumed=0)
    records = list(enumerate(members(0, True, False), start=1))
    filled(groups, records)
    groups.judge()
    filled(groups, records)
    groups.judge()
    assert groups.filled == 1
    assert groups.held == 2


def test_missing_is_the_minimum_number_of_records_that_fill_the_batch():
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


def journal(seed: int) -> list[tuple[int, Rollout | FailedRollout]]:
    """Return 30 groups of 3, interleaved, some members failed, at slowly rising versions."""
    rng = random.Random(seed)
    arrivals = sorted((group + rng.random() * 6, group, i) for group in range(30) for i in range(3))
    return [
        (
            sequence,
            failed(group, index, size=3)
            if rng.random() < 0.3
            else rollout(group, index, size=3, passed=rng.random() < 0.5, version=group // 6),
        )
        for sequence, (_, group, index) in enumerate(arrivals, start=1)
    ]


def play(
    records: list[tuple[int, Rollout | FailedRollout]],
    chunks: random.Random,
    *,
    refill_batches: int,
    dies: bool,
) -> tuple[list[tuple[str, ...]], list[tuple[str, str]]]:
    """Return the batches and discards of a learner that takes ``records`` in random portions.

    If it ``dies``, it loses its memory after random portions and gets all unfinished records again.
    """
    config = LearnerConfig(groups_per_step=2, max_staleness=1, refill_batches=refill_batches)
    batches: list[tuple[str, ...]] = []
    discards: list[tuple[str, str]] = []
    done: set[int] = set()
    groups, consumed, replaced, cursor = Groups(config, step=1, consumed=0), 0, 0, 0
    while True:
        for discard in groups.judge():
            discards.append((discard.message.group_id, discard.message.reason))
            replaced += discard.message.reason == "zero_variance"
            done.update(discard.sequences)
            consumed = discard.message.groups_consumed
        if groups.full:
            batch = groups.take_batch()
            batches.append(tuple(group.group_id for group in batch))
            done.update(s for group in batch for s in group.sequences)
            consumed, replaced = groups.consumed, 0
            continue
        if dies and chunks.random() < 0.2:
            step = len(batches) + 1
            groups, cursor = Groups(config, step=step, consumed=consumed, replaced=replaced), 0
        if cursor == len(records):
            return batches, discards
        portion = chunks.randint(1, 9)
        for sequence, message in records[cursor : cursor + portion]:
            if sequence not in done:
                groups.add(sequence, message)
        cursor = min(len(records), cursor + portion)


@pytest.mark.parametrize("refill_batches", [1, 99])
@pytest.mark.parametrize("seed", range(10))
def test_batches_and_discards_follow_from_the_journals_order_alone(seed: int, refill_batches: int):
    records = journal(seed)
    expected = play(records, random.Random(0), refill_batches=refill_batches, dies=False)
    assert len(expected[0]) > 3
    assert len(expected[1]) > 3
    for number in range(1, 6):
        chunks = random.Random(number)
        assert play(records, chunks, refill_batches=refill_batches, dies=True) == expected
