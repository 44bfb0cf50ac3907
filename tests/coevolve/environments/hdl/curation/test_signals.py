import pytest

from coevolve.environments.hdl.curation.signals import (
    Forgotten,
    Rare,
    boundary,
    counts,
    forgetting,
    rare,
    rarity_bonuses,
)


def hits(*points: int) -> bytes:
    """Return the bitmap of 12 points."""
    return sum(1 << point for point in points).to_bytes(2, "little")


def test_points_are_forgotten_that_the_earlier_version_hit_and_the_later_never() -> None:
    before = [hits(0, 9), hits(0, 9, 3), b"", hits(0)]
    after = [hits(0), hits(0, 5)]
    # C(4, 1) / C(6, 1) and C(4, 2) / C(6, 2).
    assert forgetting(before, after) == (
        Forgotten(point=3, score=0.25, chance=4 / 6),
        Forgotten(point=9, score=0.5, chance=6 / 15),
    )
    assert [each.point for each in forgetting(before, after, chance_at_most=0.5)] == [9]


def test_all_is_forgotten_where_every_later_rollout_failed() -> None:
    assert [each.point for each in forgetting([hits(2, 10)], [b"", b""])] == [2, 10]


def test_nothing_is_forgotten_without_rollouts_to_compare() -> None:
    assert forgetting([], [hits(1)]) == ()
    assert forgetting([hits(1)], []) == ()


def test_the_boundary_is_strongest_at_one_half_and_absent_at_the_ends() -> None:
    assert boundary([True, False]) == 1.0
    assert boundary([True, False, False, False]) == pytest.approx(0.75)
    assert boundary([True, True]) == boundary([False]) == boundary([]) == 0.0


def test_rare_points_are_covered_by_less_than_theta_of_the_rollouts() -> None:
    rollouts = [hits(0, 1), hits(0, 1), hits(0), hits(0, 11)]
    assert rare(rollouts, theta=0.5) == (Rare(point=11, score=0.5, rollouts=1),)
    assert [each.point for each in rare(rollouts, theta=0.51)] == [1, 11]
    assert rare([], theta=0.5) == ()


def test_points_that_nobody_covered_are_rare_only_on_demand() -> None:
    found = rare([hits(0, 1, 2)], theta=0.5, points=4)
    assert found == (Rare(point=3, score=1.0, rollouts=0),)
    assert [each.point for each in rare([b""], theta=0.5, points=2)] == [0, 1]


def test_a_rollout_earns_more_for_points_that_few_of_its_group_cover() -> None:
    assert rarity_bonuses([hits(0, 1), hits(0), b""]) == ((0.5 + 1) / 2, 0.5, 0.0)


def test_bitmaps_of_failed_rollouts_count_as_empty() -> None:
    assert counts([hits(0, 8), b"", hits(8)]) == [1, 0, 0, 0, 0, 0, 0, 0, 2, *([0] * 7)]
    assert counts([]) == []
