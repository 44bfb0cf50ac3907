"""Regions: a partition of the counted points, each of one kind and at one place."""

from coevolve.environments.hdl.coverage.regions import MOST_POINTS, about, design_of, named, regions
from tests.hdl_points import POINTS, unit


def test_every_counted_point_is_in_one_region():
    excluded = POINTS[:3]
    found = regions(POINTS, unit(excluded))
    inside = sorted(point for region in found for point in region.points)
    assert inside == list(range(3, len(POINTS)))
    assert len({region.name for region in found}) == len(found)


def test_a_region_has_one_kind_and_instance_and_a_maximum_size():
    found = regions(POINTS, unit())
    assert len(found) > 3
    for region in found:
        points = [POINTS[index] for index in region.points]
        assert len({(each.metric, each.instance, each.file) for each in points}) == 1
        assert len(points) <= MOST_POINTS


def test_states_come_before_arcs_and_neither_is_mixed_with_the_other():
    first, second, *_ = regions(POINTS, unit())
    assert {POINTS[index].name for index in first.points} == {"IDLE", "RUN", "DONE"}
    assert all("->" in POINTS[index].name for index in second.points)


def test_toggles_are_grouped_by_signal():
    names = [
        {POINTS[index].name.partition("[")[0].partition(":")[0] for index in region.points}
        for region in regions(POINTS, unit())
        if POINTS[region.points[0]].metric == "toggle"
    ]
    assert all(len(each) == 1 for each in names)
    assert set().union(*names) == {"clk", "count", "mem", "q"}


def test_the_region_of_a_signal_is_found():
    found = regions(POINTS, unit())
    for region in found:
        assert design_of(about("fifo", region)) == "fifo"
        assert named(about("fifo", region), found) == region
    assert named(about("fifo", found[0]), found[1:]) is None
