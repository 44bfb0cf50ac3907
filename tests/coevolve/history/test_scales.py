import pytest

from coevolve.history.scales import (
    bin_name,
    bins,
    evenly,
    number,
)


@pytest.mark.parametrize("last", [1, 9, 10, 11, 80, 81, 640, 99_999])
def test_bins_cover_every_step_once_and_are_not_too_many(last: int):
    found = bins(1, last, 10)
    assert [step for each in found for step in each] == list(range(1, last + 1))
    assert len(found) <= 10


def test_bins_are_named_by_both_ends():
    assert [bin_name(each) for each in bins(1, 25, 3)] == [
        f"{first}\N{EN DASH}{last}" for first, last in ((1, 10), (11, 20), (21, 25))
    ]
    assert [bin_name(each) for each in bins(1, 3, 3)] == ["1", "2", "3"]


def test_thinned_positions_keep_the_first_and_the_last():
    assert evenly(3, 5) == [0, 1, 2]
    assert evenly(101, 5) == [0, 25, 50, 75, 100]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1234.4, "1,234"), (12.345, "12.3"), (0.0312, "0.0312"), (20.0, "20"), (100, "100")],
)
def test_numbers_have_three_significant_digits(value: float, text: str):
    assert number(value) == text
