"""Columns of token data as little-endian bytes, so that encoding is a copy without conversion."""

import sys
from array import array
from collections.abc import Iterable

if sys.byteorder != "little":
    raise ImportError("journals need a little-endian machine, but this one is big-endian")

INT32_BYTES = 4
FLOAT32_BYTES = 4


def int32(values: Iterable[int]) -> bytes:
    """Return ``values`` as an int32 column. Raises OverflowError outside int32."""
    return array("i", values).tobytes()


def float32(values: Iterable[float]) -> bytes:
    """Return ``values`` as a float32 column."""
    return array("f", values).tobytes()


def uint8(values: Iterable[int]) -> bytes:
    """Return ``values`` as a uint8 column. Raises ValueError outside 0..255."""
    return bytes(values)


def from_int32(column: bytes) -> list[int]:
    """Return the numbers of an int32 column."""
    return array("i", column).tolist()


def from_float32(column: bytes) -> list[float]:
    """Return the numbers of a float32 column."""
    return array("f", column).tolist()
