import pytest

from coevolve.environments.hdl.coverage.instrument import ADDED, FsmPoint, Instrumented
from coevolve.environments.hdl.coverage.points import (
    check_points,
    counts,
    is_point_text,
    point_set,
    point_text,
    records,
    score,
)
from coevolve.environments.hdl.simulate.messages import Point, SourceFile, Unit
from protocols.errors import ConfigError


def record(count: int, **fields: str) -> str:
    told = "".join(f"\1{key}\2{value}" for key, value in fields.items())
    return f"C '{told}' {count}\n"


FILE = "# SystemC::Coverage-3\n" + "".join(
    [
        record(3, f="m.sv", l="7", n="5", page="v_line/m", o="block", S="7-9", h="tb.dut"),
        record(0, f="m.sv", l="8", n="6", page="v_branch/m", o="if", S="8", h="tb.dut"),
        record(1, f="m.sv", l="9", n="7", page="v_expr/m", o="(a==1 && b==0) => 0", h="tb.dut"),
        record(2, f="m.sv", l="2", n="9", page="v_toggle/s__W4", o="q[3]:0->1", h="tb.dut.u[0].s"),
        record(4, f="m.sv", l="2", n="9", page="v_toggle/m", o="a___05Fb:0->1", h="tb.dut"),
        record(5, f=ADDED, l="12", n="1", page="v_branch/m", o="if", h="tb.dut"),
        record(6, f=ADDED, l="12", n="2", page="v_branch/m", o="else", h="tb.dut"),
        record(7, f=ADDED, l="12", n="3", page="v_expr/m", o="(s == 2'h0)", h="tb.dut"),
        record(7, f=ADDED, l="11", n="1", page="v_branch/m", o="if", h="tb.dut"),
        record(6, f="m.sv", l="12", n="2", page="v_user/m", o="mine", h="tb.dut.mine"),
        record(8, f="m.sv", l="7", n="5", page="v_line/m", o="block", S="7-9", h="tb.dutch"),
    ]
)
INSTRUMENTED = Instrumented(
    files=(),
    names={12: FsmPoint(file="m.sv", line=3, column=4, name="IDLE->RUN")},
)
UNIT = Unit(name="m", files=(SourceFile(name="m.sv", text=""),), top="m")


def read() -> dict[Point, int]:
    return counts(records(FILE), "tb.dut", INSTRUMENTED)


def test_points_of_the_dut_are_read_by_kind_and_nothing_else():
    assert {point_text(point): count for point, count in read().items()} == {
        "line m.sv:7:5 - block": 3,
        "branch m.sv:8:6 - if": 0,
        "expr m.sv:9:7 - (a==1 && b==0) => 0": 1,
        "toggle m.sv:2:9 u[0].s q[3]:0->1": 2,
        "toggle m.sv:2:9 - a__b:0->1": 4,
        "fsm m.sv:3:4 - IDLE->RUN": 5,
    }


def test_every_point_text_has_the_form_for_design_files():
    assert all(is_point_text(point_text(point)) for point in read())
    assert not is_point_text("line m.sv:7 - block")
    assert not is_point_text("block m.sv:7:5 - block")


def test_a_score_is_over_the_fixed_set():
    found = read()
    missing = Point(
        metric="line", file="m.sv", line=99, column=1, instance="", name="block", lines=""
    )
    over = point_set([*found, missing])
    coverage = score(found, over, UNIT)
    assert {kind.metric: (kind.covered, kind.total) for kind in coverage.kinds} == {
        "line": (1, 2),
        "branch": (0, 1),
        "expr": (1, 1),
        "toggle": (2, 2),
        "fsm": (1, 1),
    }
    hit = [coverage.hit(index) for index in range(len(over.points))]
    assert hit == [found.get(point, 0) > 0 for point in over.points]


def test_unreachable_points_and_kinds_of_only_such_points_do_not_count():
    found = read()
    unit = Unit(name="m", files=UNIT.files, top="m", unreachable=("branch m.sv:8:6 - if",))
    check_points(point_set(found), unit)
    kinds = score(found, point_set(found), unit).kinds
    assert [kind.metric for kind in kinds] == ["line", "expr", "toggle", "fsm"]


def test_an_unknown_unreachable_point_is_refused_with_a_suggestion():
    unit = Unit(name="m", files=UNIT.files, top="m", unreachable=("branch m.sv:8:7 - if",))
    with pytest.raises(ConfigError, match=r"did you mean 'branch m\.sv:8:6 - if'"):
        check_points(point_set(read()), unit)


def test_points_that_differ_from_the_frozen_ones_are_refused():
    over = point_set(read())
    frozen = Unit(name="m", files=UNIT.files, top="m", points_sha256=over.sha256)
    check_points(over, frozen)
    with pytest.raises(ConfigError, match=r"coevolve hdl qualify --freeze"):
        check_points(point_set(list(read())[1:]), frozen)
