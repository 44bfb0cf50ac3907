"""Checksums of a tensor's rows, computed where the tensor lies.

Letters: R rows, C columns.

A row's sum is that of its numbers' bits, each times an odd factor of its column, modulo 2^64. It is
the same on every device and in every order of addition. One changed number always changes it, for
an odd factor maps no difference to 0; of other changes one in 2^32 or fewer does not.

Two numbers that the same arithmetic takes for one count as one: the two zeros, and in float32 and
bfloat16 zero and a subnormal number, which a processor may take for zero.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch

Sums = npt.NDArray[np.int64]
"""One a row; rows of a tensor with more than two dimensions in their order in memory."""

PIECE = 1 << 22
"""Numbers that are summed at a time; eight bytes each."""

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def row_sums(tensor: torch.Tensor, precision: torch.dtype | None = None) -> Sums:
    """Return the sums of the rows of ``tensor``, in ``precision`` or its own."""
    values_R_C = tensor.detach().reshape(-1, tensor.shape[-1] if tensor.dim() else 1)
    sums = torch.zeros(len(values_R_C), dtype=torch.int64, device=tensor.device)
    step = max(1, PIECE // max(1, values_R_C.shape[1]))
    for first in range(0, len(values_R_C), step):
        piece = slice(first, first + step)
        sums[piece] = partial_sums(values_R_C[piece].to(precision), 0)
    return sums.cpu().numpy()


def partial_sums(values_R_C: torch.Tensor, first: int) -> torch.Tensor:
    """Return what the columns from ``first`` on add to the sums of their rows: int64, (R,)."""
    bits = _plain(values_R_C).view(_BITS[values_R_C.element_size()])
    factors_C = _factors(first + bits.shape[1])[first:].to(bits.device)
    return (bits.to(torch.int64) * factors_C).sum(1)


def _plain(values_R_C: torch.Tensor) -> torch.Tensor:
    """Return the numbers as far as arithmetic tells them apart, rows in one piece."""
    if values_R_C.is_floating_point():
        # The subnormal numbers of float16 are normal ones of the float32 that products are made in.
        dtype = torch.float32 if values_R_C.dtype == torch.float16 else values_R_C.dtype
        small = values_R_C.abs().to(dtype) < torch.finfo(dtype).tiny
        return values_R_C.masked_fill(small, 0.0).contiguous()
    return values_R_C.contiguous()


def _factors(columns: int) -> torch.Tensor:
    """Return the odd factors of the first ``columns`` columns."""
    return _drawn(max(columns - 1, 1).bit_length())[:columns]


@lru_cache(maxsize=32)
def _drawn(power: int) -> torch.Tensor:
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.integers(-(1 << 62), 1 << 62, size=1 << power) * 2 + 1)
