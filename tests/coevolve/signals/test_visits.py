import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.signals.visits import NO_VERSION, Visits, visit_of
from protocols.rollouts import Rollout, VoidRollout
from tests.coevolve.signals.histories import action, rollout, void

TOOLS = frozenset({"cd"})


def test_a_visit_sums_up_its_group():
    cd = action("cd(folder='a')")
    visit = visit_of(
        [
            (7, rollout(3, 0, passed=True, version=4, actions=[cd, cd])),
            (
                5,
                rollout(
                    3, 1, passed=False, version=6, logprobs=(-9, -1, -1, -4), mask=(0, 1, 1, 1)
                ),
            ),
            (9, void(3, 2)),
            (4, rollout(3, 3, passed=True, version=5, actions=[cd])),
        ],
        TOOLS,
    )
    assert (visit.group_id, visit.group, visit.task_id) == ("g3", 3, "task")
    assert (visit.version_min, visit.version_max) == (4, 6)
    assert (visit.successes, visit.rollouts, visit.void) == (2, 3, 1)
    assert visit.sampled_tokens == 2 + 3 + 2
    assert visit.surprise == pytest.approx((2.0 + 6.0 + 2.0) / 7)
    assert visit.calls == 3
    assert {each.pattern: each.count for each in visit.patterns if each.kind == "tool"} == {"cd": 3}
    assert visit.evidence == (7, 5, 4)


def test_a_group_that_is_wholly_void_says_only_so():
    visit = visit_of([(index + 1, void(0, index)) for index in range(4)], TOOLS)
    assert (visit.rollouts, visit.void, visit.successes, visit.surprise) == (0, 4, 0, 0.0)
    assert visit.version_min == visit.version_max == NO_VERSION
    assert visit.evidence == ()


def test_a_group_is_complete_with_its_last_member_void_or_not():
    visits = Visits()
    assert visits.add(1, rollout(0, 2)) is None
    assert visits.add(2, void(0, 0)) is None
    assert visits.add(2, void(0, 0)) is None
    assert visits.add(3, rollout(0, 3)) is None
    group = visits.add(4, rollout(0, 1))
    assert group is not None
    assert group.sequences == (1, 2, 3, 4)
    assert visit_of(group.members, TOOLS).evidence == (4, 1, 3)


def test_what_is_missing_counts_the_nearest_groups_first():
    visits = Visits()
    assert visits.missing(2, 4) == 8
    for sequence, member in enumerate([rollout(0, 0), rollout(1, 0), rollout(1, 1), rollout(1, 2)]):
        visits.add(sequence, member)
    assert [visits.missing(groups, 4) for groups in (1, 2, 3)] == [1, 4, 8]


@given(st.permutations(range(12)))
def test_arrival_changes_nothing_but_the_order_of_groups(order: list[int]):
    members: list[Rollout | VoidRollout] = [
        void(g, i) if g == i else rollout(g, i, passed=i < g) for g in range(3) for i in range(4)
    ]
    visits = Visits()
    complete = [group for each in order if (group := visits.add(each + 1, members[each]))]
    assert sorted(group.members[0][1].group for group in complete) == [0, 1, 2]
    for group in complete:
        visit = visit_of(group.members, TOOLS)
        number = visit.group
        assert group.sequences == tuple(4 * number + index + 1 for index in range(4))
        assert (visit.successes, visit.rollouts) == (number, 3)
