import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.signals.groups import NO_VERSION, OpenGroups, summary_of
from protocols.evolution import PatternCount
from protocols.rollouts import FailedRollout, Rollout
from tests.coevolve.signals.histories import action, failed, rollout


def test_a_summary_sums_up_its_group():
    cd = action("cd(folder='a')")
    patterns = (PatternCount(kind="tool", pattern="cd", count=3),)
    summary = summary_of(
        [
            (7, rollout(3, 0, passed=True, version=4, actions=[cd, cd])),
            (
                5,
                rollout(
                    3, 1, passed=False, version=6, logprobs=(-9, -1, -1, -4), mask=(0, 1, 1, 1)
                ),
            ),
            (9, failed(3, 2)),
            (4, rollout(3, 3, passed=True, version=5, actions=[cd])),
        ],
        root="beginning",
        calls=3,
        patterns=patterns,
    )
    assert (summary.group_id, summary.group, summary.task_id) == ("g3", 3, "task")
    assert (summary.version_min, summary.version_max) == (4, 6)
    assert (summary.successes, summary.rollouts, summary.errors) == (2, 3, 1)
    assert summary.sampled_tokens == 2 + 3 + 2
    assert summary.surprise == pytest.approx((2.0 + 6.0 + 2.0) / 7)
    assert summary.calls == 3
    assert summary.patterns == patterns
    assert (summary.root, summary.author) == ("beginning", "policy")
    assert summary.evidence == (7, 5, 4)


def test_rollouts_of_a_later_try_than_the_first_are_counted():
    tries = [msgspec.structs.replace(rollout(0, n), tries=n + 1) for n in range(3)]
    members = [(n + 1, each) for n, each in enumerate(tries)]
    summary = summary_of([*members, (9, failed(0, 3))], root="task", calls=0)
    assert (summary.rollouts, summary.retried, summary.errors) == (3, 2, 1)


def test_a_group_that_failed_wholly_says_only_so():
    summary = summary_of(
        [(index + 1, failed(0, index)) for index in range(4)], root="task", calls=0
    )
    assert (summary.rollouts, summary.errors, summary.successes, summary.surprise) == (0, 4, 0, 0.0)
    assert summary.version_min == summary.version_max == NO_VERSION
    assert summary.evidence == ()


def test_a_group_is_complete_with_its_last_member_failed_or_not():
    groups = OpenGroups()
    assert groups.add(1, rollout(0, 2)) is None
    assert groups.add(2, failed(0, 0)) is None
    assert groups.add(2, failed(0, 0)) is None
    assert groups.add(3, rollout(0, 3)) is None
    group = groups.add(4, rollout(0, 1))
    assert group is not None
    assert group.sequences == (1, 2, 3, 4)
    assert summary_of(group.members, root="task", calls=0).evidence == (4, 1, 3)


def test_missing_records_count_the_nearest_groups_first():
    groups = OpenGroups()
    assert groups.missing(2, 4) == 8
    for sequence, member in enumerate([rollout(0, 0), rollout(1, 0), rollout(1, 1), rollout(1, 2)]):
        groups.add(sequence, member)
    assert [groups.missing(count, 4) for count in (1, 2, 3)] == [1, 4, 8]


@given(st.permutations(range(12)))
def test_arrival_changes_nothing_but_the_order_of_groups(order: list[int]):
    members: list[Rollout | FailedRollout] = [
        failed(g, i) if g == i else rollout(g, i, passed=i < g) for g in range(3) for i in range(4)
    ]
    groups = OpenGroups()
    complete = [group for each in order if (group := groups.add(each + 1, members[each]))]
    assert sorted(group.members[0][1].group for group in complete) == [0, 1, 2]
    for group in complete:
        summary = summary_of(group.members, root="task", calls=0)
        number = summary.group
        assert group.sequences == tuple(4 * number + index + 1 for index in range(4))
        assert (summary.successes, summary.rollouts) == (number, 3)


def test_a_teachers_tokens_do_not_count_as_the_policys():
    own = rollout(0, 0, passed=True)
    taught = msgspec.structs.replace(own, author="teacher")
    summary = summary_of([(1, taught)], root="task", calls=0)
    assert (summary.author, summary.sampled_tokens, summary.surprise) == ("teacher", 0, 0.0)
    assert summary_of([(1, own)], root="task", calls=0).sampled_tokens > 0
