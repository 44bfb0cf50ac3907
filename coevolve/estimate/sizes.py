"""Sizes in bytes that may be unknown, which is None."""

FP32, BF16 = 4, 2

Bytes = int | None


def times(count: int | None, width: int) -> Bytes:
    """Return the bytes of ``count`` numbers of ``width`` bytes."""
    return None if count is None else count * width


def summed(*parts: Bytes) -> Bytes:
    """Return the sum; None if any part is unknown."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def divided(size: Bytes, parts: int) -> Bytes:
    """Return the size of one of equal ``parts``, rounded up."""
    return None if size is None else -(-size // parts)
