import numpy as np
import pytest
import torch

from coevolve.weights.row_sums import partial_sums, row_sums

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def numbers(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_changed_bit_changes_its_row_and_no_other(dtype: torch.dtype) -> None:
    values = numbers(5, 33, dtype=dtype)
    before = row_sums(values)
    bits = values.view(torch.int32 if dtype == torch.float32 else torch.int16)
    for row, column in ((0, 0), (2, 17), (4, 32)):
        for bit in (0, 6, 13):
            bits[row, column] ^= 1 << bit
            assert np.flatnonzero(row_sums(values) != before).tolist() == [row]
            bits[row, column] ^= 1 << bit


def test_numbers_that_change_places_change_the_sum() -> None:
    values = numbers(4, 16)
    swapped = values[:, torch.randperm(16, generator=torch.Generator().manual_seed(1))]
    assert (row_sums(values) != row_sums(swapped)).all()
    assert (row_sums(values[:4, :4]) != row_sums(values[:4, :4].T.contiguous())).all()


def test_pieces_and_layouts_make_no_difference() -> None:
    values = numbers(3000, 2048)  # more than one piece
    whole = row_sums(values)
    assert (row_sums(values.T.contiguous().T) == whole).all()
    halves = partial_sums(values[:, :700], 0) + partial_sums(values[:, 700:], 700)
    assert (halves.numpy() == whole).all()
    assert (row_sums(values.reshape(3, 1000, 2048)) == whole).all()
    padded = torch.nn.functional.pad(values, (0, 40))
    assert (row_sums(padded) == whole).all()


def test_zeros_of_either_sign_and_subnormals_are_one_number() -> None:
    values = torch.tensor([[0.0, 1.0], [-0.0, 1.0], [1e-40, 1.0], [1e-37, 1.0]])
    sums = row_sums(values)
    assert sums[0] == sums[1] == sums[2] != sums[3]


def test_a_sum_is_in_the_precision_that_is_asked_for() -> None:
    values = numbers(6, 50)
    rounded = values.bfloat16()
    assert (row_sums(values, torch.bfloat16) == row_sums(rounded)).all()
    assert (row_sums(values) != row_sums(rounded.float())).all()
    assert (row_sums(rounded.float(), torch.bfloat16) == row_sums(rounded)).all()


def test_nan_and_infinities_have_different_sums() -> None:
    values = torch.tensor([[float("nan"), 1.0], [float("inf"), 1.0], [-float("inf"), 1.0]])
    assert len(set(row_sums(values).tolist())) == 3


def test_a_single_number_and_other_kinds_of_numbers_have_sums() -> None:
    assert row_sums(torch.tensor(2.0)).shape == (1,)
    assert row_sums(torch.tensor([True, False])) != row_sums(torch.tensor([False, True]))
    assert row_sums(torch.arange(4)) != row_sums(torch.arange(1, 5))
