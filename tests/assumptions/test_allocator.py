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


@pytest.mark.parametrize(
    ("before", "returns"), [("", False), ("c.mallopt(-3, 1 << 20); c.mallopt(-8, 1)", True)]
)
def test_freed_memory_is_returned_only_with_a_fixed_threshold(before: str, *, returns: bool):
    """A freed block of 30 MB makes glibc keep later blocks of 24 MB, unless the threshold is fixed.

    Needed by: coevolve/models/allocator.py
    """
    words = [sys.executable, "-c", FREES.format(before=before)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert (int(done.stdout) < 4 << 20) == returns
