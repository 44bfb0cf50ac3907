import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.environments.hdl.coverage.feedback import ALL_COVERED, structured, uncovered
from coevolve.environments.hdl.simulate.messages import Coverage, KindCount
from tests.hdl_points import POINTS, all_but, covering, point, toggles, unit

ENOUGH = 100_000


def lines(*missing: str) -> list[str]:
    """Return the lines on these gaps, without the lines with counts."""
    text = uncovered(POINTS, covering(all_but(*missing)), unit(), ENOUGH)
    return [line.strip() for line in text.splitlines() if line.startswith("  ")]


def test_a_gap_has_its_place_and_the_source_line_once() -> None:
    assert lines("if", "(d==0) => 0", "cond_then") == [
        "top.sv:5 condition never true | if (d == 4'd3 && count[0]) count <= count + 1;",
        "top.sv:6 condition of ?: never true | else count <= d ? 8'd1 : 8'd2;",
        "top.sv:5 never (d==0) => 0 | if (d == 4'd3 && count[0]) count <= count + 1;",
    ]
    assert lines("DONE", "RUN")[1] == "top.sv:2 state RUN never entered"


def test_both_arms_of_a_condition_are_one_gap() -> None:
    (line,) = lines("if", "else")
    assert line.startswith("top.sv:5 condition never reached | if (d")


def test_a_block_is_reported_at_its_executed_lines() -> None:
    far = point("line", 4, "block", lines="6")
    wide = point("line", 4, "else", column=9, lines="5-6")
    points = tuple(sorted([far, wide]))
    coverage = Coverage(
        points_hash="", hits=b"\0", kinds=(KindCount(metric="line", covered=0, total=2),)
    )
    text = uncovered(points, coverage, unit(), ENOUGH)
    assert "top.sv:6 never executed | else count <= d" in text
    assert "top.sv:5 never executed (lines 5-6) | if (d" in text


def test_points_in_a_submodule_name_its_instance() -> None:
    assert lines("q:0->1", "q:1->0") == ["leaf.sv:2 in u_leaf q never toggles | logic q;"]


def test_bits_of_a_vector_are_merged_into_ranges() -> None:
    missing = [
        *(f"count[{bit}]:{edge}" for bit in (7, 6, 5, 2) for edge in ("0->1", "1->0")),
        "count[4]:1->0",
        "count[0]:0->1",
    ]
    (line,) = lines(*missing)
    assert line.startswith(
        "top.sv:1 count[7:5,2] never toggles; count[0] never 0->1; count[4] never 1->0 | module"
    )


def test_array_words_with_equal_gaps_are_reported_once() -> None:
    missing = [
        f"mem[{word}][{bit}]:0->1" for word, bits in ((1, (2, 3)), (2, (2, 3)), (3, (0,)))
        for bit in bits
    ]  # fmt: skip
    assert [line.partition(" |")[0] for line in lines(*missing)] == [
        "top.sv:3 mem[2:1][3:2] never 0->1",
        "top.sv:3 mem[3][0] never 0->1",
    ]


def test_combinations_of_one_condition_are_one_gap() -> None:
    (line,) = lines("(d==0) => 0", "(count[0]==0) => 0")
    assert line.startswith("top.sv:5 never (count[0]==0) => 0; (d==0) => 0 | if (d")


def test_states_come_before_arcs_and_arcs_out_of_unseen_states_last() -> None:
    found = lines("DONE", "DONE->IDLE", "RUN->DONE")
    assert [line.partition(" |")[0] for line in found] == [
        "top.sv:2 state DONE never entered",
        "top.sv:2 arc RUN->DONE never taken",
        "top.sv:2 arc DONE->IDLE never taken",
    ]


def test_kinds_are_sorted_by_usefulness_with_counts() -> None:
    text = uncovered(POINTS, covering([]), unit(), ENOUGH)
    assert [line for line in text.splitlines() if line[0] != " "] == [
        "fsm: 6 of 6 uncovered",
        "line: 2 of 2 uncovered",
        "branch: 3 of 3 uncovered",
        "expr: 3 of 3 uncovered",
        "toggle: 52 of 52 uncovered",
    ]


def test_unreachable_points_are_not_reported() -> None:
    dead = [point("fsm", 2, "DONE"), *toggles(1, "count[7]")]
    coverage = covering(all_but("DONE", "count[7]:0->1", "count[7]:1->0"), unreachable=dead)
    assert uncovered(POINTS, coverage, unit(dead), ENOUGH) == ALL_COVERED
    data = structured(POINTS, coverage, unit(dead))
    assert (data["total_uncovered"], data["bin_ids"]) == (0, [])
    covered = data["covered_bin_ids"]
    assert isinstance(covered, list)
    assert len(covered) == len(POINTS) - 3


def test_points_that_do_not_fit_are_counted() -> None:
    dead = [f"mem[{word}][{word}]:0->1" for word in range(4)]
    text = uncovered(POINTS, covering(all_but(*dead)), unit(), 120)
    assert text == (
        "toggle: 4 of 52 uncovered\n"
        "  top.sv:3 mem[0][0] never 0->1 | logic [3:0] mem [0:3];\n"
        "  ... and 3 more toggle points\n"
    )


@pytest.mark.parametrize("limit", [600, 900])
def test_every_kind_gets_its_share_of_the_text(limit: int) -> None:
    missing = [each.name for each in POINTS if each.metric in {"fsm", "toggle", "branch"}]
    text = uncovered(POINTS, covering(all_but(*missing)), unit(), limit)
    sections = {part.partition(":")[0]: len(part) for part in text.replace("\n  ", " ").split("\n")}
    assert sections.keys() >= {"fsm", "branch", "toggle"}
    assert min(sections[kind] for kind in ("fsm", "branch", "toggle")) > limit / 6


@given(hit=st.sets(st.sampled_from(POINTS)), limit=st.integers(0, 1500))
def test_the_text_keeps_its_limit_and_depends_only_on_hits(hit, limit) -> None:
    coverage = covering(list(hit))
    text = uncovered(POINTS, coverage, unit(), limit)
    assert len(text) <= limit
    assert text == "" or text.endswith("\n")
    assert text == uncovered(POINTS, coverage, unit(), limit)


@given(hit=st.sets(st.sampled_from(POINTS)))
def test_every_uncovered_point_is_in_exactly_one_gap(hit) -> None:
    data = structured(POINTS, covering(list(hit)), unit())
    by_type = data["by_type"]
    assert isinstance(by_type, dict)
    told = sorted(index for gaps in by_type.values() for gap in gaps for index in gap["bin_ids"])
    assert told == data["bin_ids"] == [i for i, each in enumerate(POINTS) if each not in hit]


def test_data_has_the_fields_of_llm4covs_extension() -> None:
    missing = ("DONE", "RUN->DONE", "if", "(d==0) => 0", "count[7]:0->1")
    data = structured(POINTS, covering(all_but(*missing)), unit())
    assert json.loads(json.dumps(data)) == data
    assert data["counts"] == {"line": 0, "branch": 1, "expr": 1, "toggle": 1, "fsm": 2}
    found = data["by_type"]
    assert isinstance(found, dict)
    shown = {
        name: [{k: v for k, v in gap.items() if k in keys} for gap in found[name]]
        for name, keys in {
            "fsm": ("kind", "state", "from", "to"),
            "block": ("kind", "line", "source"),
            "expression": ("index", "line"),
            "toggle": ("signal",),
        }.items()
    }
    assert shown == {
        "fsm": [
            {"kind": "state", "state": "DONE"},
            {"kind": "transition", "from": "RUN", "to": "DONE"},
        ],
        "block": [
            {
                "kind": "branch",
                "line": 5,
                "source": "if (d == 4'd3 && count[0]) count <= count + 1;",
            }
        ],
        "expression": [{"index": ["(d==0) => 0"], "line": 5}],
        "toggle": [{"signal": "count[7]"}],
    }
