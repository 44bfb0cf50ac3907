from hypothesis import given
from hypothesis import strategies as st

from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.designs.similarity import common_tokens, copies
from coevolve.environments.hdl.simulate.messages import SourceFile, Unit
from tests.small_designs import counter

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
