from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from coevolve.hdl.similarity import common_tokens, copies, rouge_l
from protocols.designs import Design, DesignFile
from protocols.hardware import SourceFile, Unit

TOKENS = st.lists(st.sampled_from("abcd"), max_size=24)


def design(name: str, rtl: str, specification: str) -> Design:
    unit = Unit(name=name, files=(SourceFile(name=f"{name}.sv", text=rtl),), top=name)
    file = DesignFile(top=name, family="any", split="train", files=(f"{name}.sv",), threshold=0.9)
    return Design(
        design_id=name,
        file=file,
        unit=unit,
        ports=(),
        specification=specification,
        testbenches={"poor": f"only {name} says this", "mid": "", "good": ""},
        mutants=(),
    )


@given(TOKENS, TOKENS)
def test_common_tokens_are_those_that_the_textbook_table_finds(
    one: list[str], other: list[str]
) -> None:
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for row, left in enumerate(one):
        for column, right in enumerate(other):
            table[row + 1][column + 1] = (
                table[row][column] + 1
                if left == right
                else max(table[row][column + 1], table[row + 1][column])
            )
    assert common_tokens(one, other) == table[-1][-1]


def test_rouge_l_counts_what_is_in_order() -> None:
    assert rouge_l("a b c d".split(), "a x c d".split()) == approx(0.75)
    assert rouge_l("a b".split(), "b a".split()) == approx(0.5)
    assert rouge_l(["a"], []) == 0.0


def test_a_file_that_another_design_has_too_is_a_copy() -> None:
    specification = "One two three four five six seven eight nine ten."
    one = design("one", "module one; endmodule", specification)
    other = design("other", "wire nothing else;", specification.replace("four", "FOUR"))
    (match,) = copies([one], [other])
    assert (match.file, match.other, match.f1) == ("one/spec.md", "other/spec.md", approx(0.9))


def test_designs_that_share_some_words_are_no_copies() -> None:
    one = design("one", "module one; endmodule", "A counter that wraps at its limit.")
    other = design("other", "wire nothing else;", "A queue that drops at its limit, and tells.")
    assert not [*copies([one], [other])]
