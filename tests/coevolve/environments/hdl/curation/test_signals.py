from coevolve.environments.hdl.curation.signals import counts, rarity_bonuses


def hits(*points: int) -> bytes:
    """Return the bitmap of 12 points."""
    return sum(1 << point for point in points).to_bytes(2, "little")


def test_a_rollout_earns_more_for_points_that_few_of_its_group_cover() -> None:
    assert rarity_bonuses([hits(0, 1), hits(0), b""]) == ((0.5 + 1) / 2, 0.5, 0.0)


def test_bitmaps_of_failed_rollouts_count_as_empty() -> None:
    assert counts([hits(0, 8), b"", hits(8)]) == [1, 0, 0, 0, 0, 0, 0, 0, 2, *([0] * 7)]
    assert counts([]) == []
