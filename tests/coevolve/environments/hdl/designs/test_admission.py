from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.environments.hdl.designs.admission import (
    Measured,
    Run,
    common_tokens,
    copies,
    kept_apart,
    refusals,
)
from coevolve.environments.hdl.designs.design import Design, PointsFile, Quality
from coevolve.environments.hdl.designs.mutants import Bugs
from coevolve.environments.hdl.simulate.messages import Coverage, KindCount, SourceFile, Unit
from tests.small_designs import MUTANTS, counter

SHA = "ab" * 32


def coverage(covered: int, hits: bytes = b"") -> Coverage:
    kinds = (KindCount(metric="line", covered=covered, total=100),)
    return Coverage(points_hash=SHA, hits=hits or bytes([covered]), kinds=kinds)


def runs(poor: int = 40, mid: int = 60, good: int = 95) -> dict[Quality, Run]:
    return {
        "poor": Run(coverages=(coverage(poor),)),
        "mid": Run(coverages=(coverage(mid),)),
        "good": Run(coverages=(coverage(good),) * 3),
    }


FIVE = tuple(msgspec.structs.replace(MUTANTS[0], name=f"bug{number}") for number in range(5))
NAMES = tuple(mutant.name for mutant in FIVE)

MEASURED = Measured(
    count=200,
    sha256=SHA,
    runs=runs(),
    bugs={"good": Bugs(killed=NAMES), "poor": Bugs(survived=NAMES)},
    random=(0.5, 0.6),
    long_random=0.0,
)


def found(design: dict[str, Any] | None = None, **measured: Any) -> list[str]:
    """Return the rules that refuse an otherwise admissible design with these changes."""
    usual: dict[str, Any] = {"points": PointsFile(count=200, sha256=SHA), "mutants": FIVE}
    made = counter("counter", **(usual | (design or {})))
    return [
        f"{refusal.rule}: {refusal.found}; {refusal.required}"
        for refusal in refusals(made, msgspec.structs.replace(MEASURED, **measured))
    ]


def test_a_design_that_breaks_no_rule_is_admitted() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("design", "measured", "refused"),
    [
        (
            {},
            {"runs": runs() | {"mid": Run(failure="it did not compile")}},
            "testbench_failed: mid.sv: it did not compile; it compiles, runs, $finishes",
        ),
        (
            {},
            {"runs": runs() | {"good": Run(coverages=(coverage(95), coverage(95, b"x")))}},
            "not_deterministic: 2 different coverages in 2 runs of good.sv; 2 equal ones",
        ),
        ({"threshold": 0.8}, {"runs": runs(good=89)}, "good_covers_little: 0.8900; at least 0.9"),
        ({}, {"runs": runs(poor=66, mid=70)}, "poor_covers_much: 0.6600; at most 0.65"),
        ({}, {"runs": runs(mid=40)}, "mid_not_between: 0.4000, 0.4000, 0.9500; poor < mid < good"),
        ({"threshold": 0.96}, {}, "threshold: good.sv 0.9500; at least the threshold 0.96"),
        (
            {"points": PointsFile(count=99, sha256=SHA)},
            {"count": 99},
            "point_count: 99; 100 to 1000",
        ),
        (
            {"points": None},
            {},
            "points_not_frozen: no points in design.yaml; coevolve hdl qualify --freeze",
        ),
        (
            {},
            {"count": 201},
            "points_changed: 201 points, abababababab; the frozen 200, abababababab; where the RTL "
            "was meant to change: coevolve hdl qualify --freeze",
        ),
        (
            {},
            {"covered_unreachable": ("line counter.sv:1:1 - x",)},
            "unreachable_covered: line counter.sv:1:1 - x; points that no run covers",
        ),
        ({}, {"random": (0.5, 0.9)}, "random_passes: 0.9000 of 1000 random cycles; below 0.9"),
        (
            {"secret": "A key unlocks it."},
            {"long_random": 0.81},
            "secret_found: 0.8100 of long random stimulus; at most 0.8000",
        ),
        ({"mutants": FIVE[:4]}, {}, "few_mutants: 4; at least 5"),
        (
            {},
            {"bugs": {"good": Bugs(killed=NAMES[1:], broken=NAMES[:1])}},
            "mutant_broken: bug0 does not compile; RTL that compiles",
        ),
        (
            {},
            {"bugs": {"good": Bugs(killed=NAMES[1:], survived=NAMES[:1])}},
            "mutant_survives: bug0 with good.sv; different outputs",
        ),
        (
            {},
            {"bugs": {"poor": Bugs(killed=NAMES[:1])}},
            "mutant_too_easy: bug0 with poor.sv; the same outputs",
        ),
        (
            {"specification": "It counts."},
            {},
            "short_specification: 2 words in spec.md; at least 150",
        ),
    ],
    ids=lambda value: value.partition(":")[0] if isinstance(value, str) else "",
)
def test_each_refusal_states_what_was_found_and_required(
    design: dict[str, Any], measured: dict[str, Any], refused: str
) -> None:
    assert found(design, **measured) == [refused]


def test_long_random_stimulus_matters_only_for_designs_with_a_secret() -> None:
    assert found(long_random=0.85) == []


def test_a_family_is_in_one_split() -> None:
    designs = [
        counter("first", specification="Nothing in common."),
        counter("second", split="held_out"),
    ]
    refused = [refusal for refusal in kept_apart(designs) if refusal.rule == "family_split"]
    assert [str(refusal) for refusal in refused] == [
        "first: family_split: found family counters: second in held_out, first in train; required: "
        "one split for all designs of a family"
    ]


def test_a_held_out_design_shares_no_file_with_one_for_training() -> None:
    refused = kept_apart([counter("first"), counter("second", family="others", split="held_out")])
    assert {refusal.rule for refusal in refused} == {"copy"}
    assert str(refused[0]) == (
        "first: copy: found ROUGE-L F1 1.00 between first/counter.sv and second/counter.sv; "
        "required: below 0.5 between any file for training and any held-out one"
    )


def test_designs_of_one_split_may_share_files() -> None:
    assert kept_apart([counter("first"), counter("second", family="others")]) == ()


TOKENS = st.lists(st.sampled_from("abcd"), max_size=24)


def of_texts(name: str, rtl: str, specification: str) -> Design:
    unit = Unit(name=name, files=(SourceFile(name=f"{name}.sv", text=rtl),), top=name)
    return counter(name, unit=unit, specification=specification, testbenches={"poor": name})


@given(TOKENS, TOKENS)
def test_common_tokens_match_the_textbook_algorithm(one: list[str], other: list[str]) -> None:
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for row, left in enumerate(one):
        for column, right in enumerate(other):
            table[row + 1][column + 1] = (
                table[row][column] + 1
                if left == right
                else max(table[row][column + 1], table[row + 1][column])
            )
    assert common_tokens(one, other) == table[-1][-1]


def test_a_file_of_two_designs_is_a_copy() -> None:
    words = "One two three four five six seven eight nine ten."
    one = of_texts("one", "module one; endmodule", words)
    other = of_texts("other", "wire nothing else;", words.replace("four", "FOUR"))
    (match,) = copies([one], [other])
    assert match == ("one/spec.md", "other/spec.md", 0.9)


def test_designs_that_share_some_words_are_not_copies() -> None:
    one = of_texts("one", "module one; endmodule", "A counter that wraps at its limit.")
    other = of_texts("other", "wire nothing else;", "A queue drops the oldest, and tells whom.")
    assert not [*copies([one], [other])]
