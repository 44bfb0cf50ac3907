from coevolve.environments.hdl.designs.measuring import average, merged
from coevolve.environments.hdl.simulate.messages import Coverage, Metric, Point
from tests.small_designs import counter


def point(metric: Metric, line: int) -> Point:
    return Point(
        metric=metric, file="counter.sv", line=line, column=1, instance="", name="x", lines=""
    )


def test_runs_together_cover_what_any_of_them_covers() -> None:
    each = [Coverage(points_hash="", hits=hits, kinds=()) for hits in (b"\x01\x00", b"\x80\x02")]
    assert merged(each) == {0, 7, 9}
    assert merged([]) == frozenset()


def test_the_average_of_several_runs_weighs_kinds_alike() -> None:
    points = tuple(sorted([point("line", 1), point("line", 2), point("toggle", 3)]))
    assert average(points, {0}, counter().unit) == 0.25
    assert average(points, {0, 2}, counter().unit) == 0.75
    assert average(points, (), counter().unit) == 0.0
