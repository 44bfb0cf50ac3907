"""Facts about glibc's allocator."""

import subprocess
import sys

import pytest

FREES = """
import ctypes
from pathlib import Path
c = ctypes.CDLL(None)
c.malloc.restype, c.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
c.free.argtypes = [ctypes.c_void_p]
def made(size):
    block = c.malloc(size)
    ctypes.memset(block, 1, size)
    return block
def anonymous():
    return 1024 * int(Path("/proc/self/status").read_text().partition("RssAnon:")[2].split()[0])
{before}
c.free(made(30 << 20))
start, large = anonymous(), made(24 << 20)
kept = made(4096)
c.free(large)
print(anonymous() - start)
"""

SMALL = """
blocks = [(made(300_000), made(64)) for _ in range(100)]
start = anonymous()
for large, _ in blocks:
    c.free(large)
{after}
print(start - anonymous())
"""


@pytest.mark.parametrize(
    ("before", "returns"), [("", False), ("c.mallopt(-3, 1 << 20); c.mallopt(-8, 1)", True)]
)
def test_freed_memory_is_returned_only_with_a_fixed_threshold(before: str, *, returns: bool):
    """A freed block of 30 MB makes glibc keep later blocks of 24 MB, unless the threshold is fixed.

    Needed by: coevolve/models/allocator.py
    """
    assert (printed(FREES.format(before=before)) < 4 << 20) == returns


@pytest.mark.parametrize(("after", "returns"), [("", False), ("c.malloc_trim(0)", True)])
def test_what_lies_between_small_blocks_is_returned_only_by_a_trim(after: str, *, returns: bool):
    """Freed blocks of 300 kB between others stay with the process until `malloc_trim` is called.

    Needed by: coevolve/models/allocator.py
    """
    fixed = FREES.partition("{before}")[0] + "c.mallopt(-3, 1 << 20); c.mallopt(-8, 1)"
    assert (printed(fixed + SMALL.format(after=after)) > 20 << 20) == returns


def printed(code: str) -> int:
    words = [sys.executable, "-c", code]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
