from hypothesis import given
from hypothesis import strategies as st

from coevolve.environments.hdl.gate.line_search import occurrences

WORDS = st.lists(st.sampled_from("ab"), max_size=30)


class Counted:
    """A line that counts comparisons with it."""

    compared = 0

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return isinstance(other, Counted) and self.text == other.text

    __hash__ = None  # pyright: ignore[reportAssignmentType]


@given(among=WORDS, wanted=WORDS.filter(bool))
def test_every_place_is_found(among: list[str], wanted: list[str]):
    size = len(wanted)
    places = [at for at in range(len(among)) if among[at : at + size] == wanted]
    assert occurrences(among, wanted) == places


@given(
    among=st.sampled_from(["a", "ab", "aab", "aaab"]),
    wanted=st.sampled_from(["a", "aa", "ab", "aab", "aba"]),
    end=st.sampled_from(["", "a", "b", "c"]),
    sizes=st.tuples(st.integers(1, 200), st.integers(1, 100)),
)
def test_comparisons_are_linear_however_lines_repeat(
    among: str, wanted: str, end: str, sizes: tuple[int, int]
):
    lines = [Counted(each) for each in among * sizes[0]]
    looked_for = [Counted(each) for each in wanted * sizes[1] + end]
    Counted.compared = 0
    occurrences(lines, looked_for)
    assert Counted.compared <= 2 * (len(lines) + len(looked_for))
