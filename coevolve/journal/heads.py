"""The two heads of an LMDB file: pages 0 and 1, of which each transaction replaces the older one.

They are read without LMDB, because LMDB maps what they promise. `coevolve.journal.pages` reads the
rest.
"""

import struct
from pathlib import Path
from typing import NamedTuple

from protocols.errors import JournalFormatError

USED_BYTES = 152
"""Bytes at the beginning of a head's page that LMDB uses; they lie in one sector of a disk."""

_MAGIC = 0xBEEFC0DE
_VERSION = 1
_HEAD_AT = 16
_HEAD = struct.Struct("<IIQQ48s48sQQ")
_TREE = struct.Struct("<IHHQQQQQ")
_KINDS = struct.Struct("<QHH")
_META_PAGE = 8
_PAGE_BYTES = range(512, (1 << 15) + 1)
_NUMBER = struct.Struct("<Q")
_TRANSACTION = struct.Struct("<Q")


class Tree(NamedTuple):
    """The head of one tree."""

    pad: int
    flags: int
    depth: int
    branch_pages: int
    leaf_pages: int
    large_pages: int
    entries: int
    root: int

    @classmethod
    def unpack(cls, encoded: bytes) -> "Tree":
        """Return the tree that 48 bytes describe."""
        return cls(*_TREE.unpack(encoded))


class Head(NamedTuple):
    """One head."""

    map_bytes: int
    page_bytes: int
    free: Tree
    """The tree of free pages."""

    main: Tree
    """The tree of tables."""

    last_page: int
    transaction: int


def read_head(file: Path) -> Head:
    """Return the newer head. Raises JournalFormatError unless the file has two that fit."""
    with file.open("rb") as stream:
        first = _parse(stream.read(USED_BYTES), 0)
        second = None
        if first is not None:
            stream.seek(first.page_bytes)
            second = _parse(stream.read(USED_BYTES), 1)
    if first is None or second is None:
        found = sum(head is not None for head in (first, second))
        raise JournalFormatError(
            f"{file} needs two LMDB heads and has {found}: it is truncated, damaged or not a "
            "journal; `coevolve journal repair RUN` saves what is whole"
        )
    return max(first, second, key=lambda head: head.transaction)


def head_of(page: bytes) -> Head:
    """Return the head in a page's first `USED_BYTES`, which are known to be one."""
    head = _parse(page, _NUMBER.unpack_from(page)[0])
    assert head is not None, "no head of LMDB"
    return head


def moved(page: bytes, number: int, transaction: int) -> bytes:
    """Return the same state as head ``number`` (0 or 1), and as that of another transaction."""
    state = page[_NUMBER.size : USED_BYTES - _TRANSACTION.size]
    return _NUMBER.pack(number) + state + _TRANSACTION.pack(transaction)


def _parse(page: bytes, number: int) -> Head | None:
    if len(page) < USED_BYTES:
        return None
    found, _, kind = _KINDS.unpack_from(page)
    magic, version, _, map_bytes, free, main, last_page, transaction = _HEAD.unpack_from(
        page, _HEAD_AT
    )
    tree = Tree.unpack(free)
    fits = (found, kind, magic, version) == (number, _META_PAGE, _MAGIC, _VERSION)
    if not fits or tree.pad not in _PAGE_BYTES or tree.pad & (tree.pad - 1):
        return None
    return Head(map_bytes, tree.pad, tree, Tree.unpack(main), last_page, transaction)
