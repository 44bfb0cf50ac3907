"""Checksums of a tensor's rows, computed on the tensor's device.

Letters: R rows, C columns.

A row's sum adds the bits of its numbers, each times an odd factor of its column, modulo 2^64. The
sum is the same on every device and in every order of addition. One changed number always changes
the sum, because an odd factor maps no difference to 0. Of other changes, at most one in 2^32 leaves
it unchanged.

Two numbers that arithmetic does not distinguish count as equal: the two zeros, and in float32 and
bfloat16 zero and subnormal numbers, which a processor may treat as zero.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch

Sums = npt.NDArray[np.int64]
"""One sum per row; rows of a tensor with more than two dimensions are in memory order."""

PIECE = 1 << 22
"""Number of values summed at a time, of eight bytes each."""

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def row_sums(tensor: torch.Tensor, precision: torch.dtype | None = None) -> Sums:
    """Return the sums of the rows of ``tensor``, after conversion to ``precision`` if given."""
    values_R_C = tensor.detach().reshape(-1, tensor.shape[-1] if tensor.dim() else 1)
    sums = torch.zeros(len(values_R_C), dtype=torch.int64, device=tensor.device)
    step = max(1, PIECE // max(1, values_R_C.shape[1]))
    for first in range(0, len(values_R_C), step):
        piece = slice(first, first + step)
        sums[piece] = partial_sums(values_R_C[piece].to(precision), 0)
    return sums.cpu().numpy()


def partial_sums(values_R_C: torch.Tensor, first: int) -> torch.Tensor:
    """Return the contribution of the columns from ``first`` on to the row sums: int64, (R,)."""
    bits = _canonical(values_R_C).view(_BITS[values_R_C.element_size()])
    factors_C = _factors(first + bits.shape[1])[first:].to(bits.device)
    return (bits.to(torch.int64) * factors_C).sum(1)


def _canonical(values_R_C: torch.Tensor) -> torch.Tensor:
    """Return the values in contiguous rows; values that arithmetic treats as zero become zero."""
    if values_R_C.is_floating_point():
        # Products of float16 use float32, in which float16's subnormal numbers are normal.
        dtype = torch.float32 if values_R_C.dtype == torch.float16 else values_R_C.dtype
        small = values_R_C.abs().to(dtype) < torch.finfo(dtype).tiny
        return values_R_C.masked_fill(small, 0.0).contiguous()
    return values_R_C.contiguous()


def _factors(columns: int) -> torch.Tensor:
    """Return the odd factors of the first ``columns`` columns."""
    return _draw_factors(max(columns - 1, 1).bit_length())[:columns]


@lru_cache(maxsize=32)
def _draw_factors(power: int) -> torch.Tensor:
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.integers(-(1 << 62), 1 << 62, size=1 << power) * 2 + 1)
