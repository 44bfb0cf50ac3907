from bisect import bisect_left, bisect_right
from itertools import accumulate
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.base.ordered import Ranked, SumTree

PLACES = st.integers(0, 70)


@given(st.lists(st.tuples(PLACES, st.integers(0, 5)), max_size=100))
def test_a_place_is_found_by_the_sums_up_to_it(changes: list[tuple[int, int]]):
    tree, plain = SumTree(), [0] * 71
    for place, number in changes:
        tree[place] = number
        plain[place] = number
        sums = list(accumulate(plain))
        assert tree.total == sums[-1]
        for point in range(sums[-1]):
            assert tree.place_of(point) == bisect_right(sums, point)


@given(
    st.lists(st.tuples(PLACES, st.floats(0, 1e300)), min_size=1, max_size=50), st.floats(0.9, 1.0)
)
def test_rounding_leads_to_no_empty_place_and_leaves_nothing_behind(
    changes: list[tuple[int, float]], share: float
):
    tree = SumTree()
    for place, number in changes:
        tree[place] = number
    numbers = dict(changes)
    if tree.total:
        assert numbers[tree.place_of(share * tree.total)] > 0
    again = SumTree()
    for place, number in sorted(numbers.items()):
        again[place] = number
    assert again.total == tree.total
    for place in numbers:
        tree[place] = 0
    assert tree.total == 0


class Counted(float):
    """A number that counts how often such numbers are added or compared."""

    operations = 0

    def __add__(self, other: float) -> "Counted":
        Counted.operations += 1
        return Counted(float(self) + float(other))

    def __radd__(self, other: float) -> "Counted":
        return self + other

    def __lt__(self, other: float) -> bool:
        Counted.operations += 1
        return float(self) < float(other)


@pytest.mark.parametrize("size", [100, 30_000])
def test_a_change_of_a_sum_adds_once_a_level(size: int):
    tree = SumTree()
    for place in range(size):
        tree[place] = Counted(1)
    Counted.operations = 0
    tree[size // 2] = Counted(2)
    assert Counted.operations <= 1 + log2(size)


@pytest.mark.parametrize("size", [100, 30_000])
def test_a_change_of_rank_compares_a_few_numbers_a_level(size: int):
    ranked: Ranked[int, float] = Ranked()
    for key in range(size):
        ranked.put(key, Counted(key))
    Counted.operations = 0
    ranked.put(size // 3, Counted(size // 2))
    ranked.below(Counted(size // 4))
    assert Counted.operations <= 8 * (1 + log2(size))


NUMBERS = st.integers(0, 9).map(lambda number: number / 8)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | NUMBERS), max_size=60), NUMBERS)
def test_ranks_equal_those_in_a_sorted_list(changes: list[tuple[str, float | None]], asked: float):
    ranked: Ranked[str, float] = Ranked()
    plain: dict[str, float] = {}
    for key, number in changes:
        if number is None:
            ranked.remove(key)
            plain.pop(key, None)
        else:
            ranked.put(key, number)
            plain[key] = number
        ordered = sorted(plain.values())
        assert len(ranked) == len(ordered)
        assert [ranked.at(rank) for rank in range(len(ordered))] == ordered
        assert ranked.below(asked) == bisect_left(ordered, asked)
        assert ranked.up_to(asked) == bisect_right(ordered, asked)
