"""Checks that LMDB can follow a file's pages, by reading them without LMDB.

LMDB trusts its pages: one changed pointer makes it read beyond the map, which kills the process,
or write over pages in use. So a file at rest is checked before LMDB opens it:

- Every page that its newest head leads to is in the file, carries its own number, and is reached
  once; every node lies within its page and every value within the file.
- The trees have the depth and the number of entries that their heads claim, and the tables have
  the flags that the journal gave them.
- The lists of free pages name no page in use.

It reads every page but the inner ones of large values, and computes with whole levels of a tree at
a time. It says nothing about what the values hold (`coevolve.journal.contents`).
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coevolve.journal.checksums import DamageError
from coevolve.journal.damage import not_a_journal
from coevolve.journal.heads import Head, Tree
from coevolve.journal.layout import TABLE_FLAGS

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

CHUNK = 2048
"""Pages that are in memory at a time."""

HEAD_BYTES = 16
"""Bytes of a page before its nodes: number (8), key size (2), flags (2), lower (2), upper (2)."""

NODE_BYTES = 8
TREE_BYTES = 48
MAX_LEVELS = 32

BRANCH, LEAF, LARGE, DIRTY, FIXED, INNER = 1, 2, 4, 0x10, 0x20, 0x40
"""Flags of pages: `FIXED` leaves hold keys of one size, `INNER` pages lie in a node."""

BIG_VALUE, TREE_VALUE, MANY_VALUES = 1, 2, 4
"""Flags of nodes."""

INTEGER_KEYS, MANY_SORTED = 0x08, 0x04
"""Flags of trees."""

SLACK_PAGES = 1 << 18
"""Most free pages that a file may lack at its end: those that one transaction used and freed."""


@dataclass(frozen=True)
class _Shape:
    """What a tree may consist of."""

    name: str
    leaf: int = LEAF
    integers: bool = False
    """Whether keys are sequences."""

    values: tuple[int, ...] = (0, BIG_VALUE)
    """Flags that a leaf's nodes may have."""

    is_free: bool = False

    @classmethod
    def of_table(cls, name: str, flags: int) -> "_Shape":
        integers = bool(flags & INTEGER_KEYS)
        if flags & MANY_SORTED:
            return cls(name, values=(0, MANY_VALUES, MANY_VALUES | TREE_VALUE))
        return cls(name, integers=integers)

    def of_key(self, key: bytes) -> "_Shape":
        """Return the shape of the tree that holds one key's sequences."""
        return _Shape(f"{self.name}, {key!r}", leaf=LEAF | FIXED, integers=True)


@dataclass
class _Nodes:
    """The nodes of some pages, one row for each."""

    page: Numbers
    """Index of the page within the chunk."""

    at: Numbers
    """Offset in the chunk's bytes."""

    flags: Numbers
    key_bytes: Numbers
    is_first: npt.NDArray[np.bool_]
    """Whether it is its page's first."""

    low: Numbers
    """Size of a leaf's value, or the lower 32 bits of a branch's page."""

    value_at: Numbers
    """Offset of the value in the chunk's bytes."""

    def where(self, chosen: npt.NDArray[np.bool_]) -> "_Nodes":
        return _Nodes(
            self.page[chosen],
            self.at[chosen],
            self.flags[chosen],
            self.key_bytes[chosen],
            self.is_first[chosen],
            self.low[chosen],
            self.value_at[chosen],
        )


@dataclass
class _Found:
    """What a walk through one tree found."""

    entries: int = 0
    children: list[Numbers] = field(default_factory=list[Numbers])
    trees: list[tuple[bytes, Tree]] = field(default_factory=list[tuple[bytes, Tree]])
    """Trees in this tree's values, and their keys."""

    values: list[bytes] = field(default_factory=list[bytes])
    """The values themselves, of the tree of free pages only."""


class Pages:
    """The pages of a file at rest."""

    def __init__(self, file: Path, head: Head) -> None:
        self._file = file
        self._size = head.page_bytes
        self._end = head.last_page + 1
        whole = file.stat().st_size // self._size
        if self._end > whole + SLACK_PAGES:
            raise DamageError(
                f"it needs {self._end * self._size} bytes and has {whole * self._size}, so it is "
                "truncated"
            )
        self._there = min(whole, self._end)
        self._pages = np.memmap(file, np.uint8, "r", shape=(whole, self._size))
        self._used = np.zeros(self._end, np.bool_)
        self._used[:2] = True
        self._head = head

    def check(self) -> None:
        """Raise DamageError if LMDB cannot follow the pages, JournalFormatError if it need not."""
        free = self._walk(_Shape("the free pages", integers=True, is_free=True), self._head.free)
        main = self._walk(_Shape("the list of tables", values=(0, TREE_VALUE)), self._head.main)
        found = {name: tree.flags for name, tree in main.trees}
        if not found.keys() & TABLE_FLAGS.keys():
            raise not_a_journal(self._file)
        if not found.items() >= TABLE_FLAGS.items():  # another format may have more
            raise DamageError(f"it needs tables with the flags {TABLE_FLAGS} and has {found}")
        for name, tree in main.trees:
            self._walk(_Shape.of_table(f"the table {name.decode()}", tree.flags), tree)
        self._check_free(free.values)
        if not self._used.all():
            page = int(np.argmin(self._used))
            raise DamageError(f"page {page} needs to be in use or free and is neither")

    def _walk(self, shape: _Shape, tree: Tree) -> _Found:
        """Check one tree, level by level, and the trees of its keys."""
        if tree.depth > MAX_LEVELS:
            raise DamageError(f"{shape.name} can have {MAX_LEVELS} levels and has {tree.depth}")
        found = _Found()
        level = np.array([tree.root] if tree.depth else [], np.int64)
        for depth in range(tree.depth, 0, -1):
            self._use(shape, level, np.ones_like(level))
            found.children = []
            for start in range(0, len(level), CHUNK):
                self._check_chunk(shape, level[start : start + CHUNK], depth == 1, found)
            level = np.concatenate(found.children) if found.children else level[:0]
        if MANY_VALUES in shape.values:
            for key, inner in found.trees:
                found.entries += self._walk(shape.of_key(key), inner).entries
        if found.entries != tree.entries:
            raise DamageError(f"{shape.name} needs {tree.entries} entries and has {found.entries}")
        return found

    def _use(self, shape: _Shape, first: Numbers, counts: Numbers) -> None:
        """Note that pages are in use, ``counts`` from each of ``first``."""
        if len(first) == 0:
            return
        if first.min() < 2 or first.max() >= self._there or (first + counts).max() > self._there:
            raise DamageError(
                f"{shape.name} leads to a page outside the file's {self._there} pages, so the "
                "file is truncated or the number is wrong"
            )
        total = int(counts.sum())
        offsets = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        pages = np.repeat(first, counts) + offsets
        if self._used[pages].any() or len(np.unique(pages)) < total:
            raise DamageError(f"{shape.name} leads to a page that is in use elsewhere")
        self._used[pages] = True

    def _check_chunk(self, shape: _Shape, numbers: Numbers, is_leaf: bool, found: _Found) -> None:
        pages = np.ascontiguousarray(self._pages[numbers])
        words = pages.view(np.uint16)
        if np.any(pages[:, :8].copy().view(np.int64)[:, 0] != numbers):
            raise DamageError(f"{shape.name} leads to pages that carry another number")
        if np.any(words[:, 5] != (shape.leaf if is_leaf else BRANCH)):
            raise DamageError(f"{shape.name} leads to a page of a wrong kind")
        if is_leaf and shape.leaf & FIXED:
            found.entries += self._check_fixed(shape, words)
        elif is_leaf:
            self._check_leaves(shape, pages, self._nodes(shape, pages), found)
        else:
            nodes = self._nodes(shape, pages)
            if shape.integers and np.any((nodes.key_bytes != 8) & ~nodes.is_first):
                raise DamageError(f"{shape.name} has a key that is no sequence")
            found.children.append(nodes.low | nodes.flags << 32)

    def _check_fixed(self, shape: _Shape, words: npt.NDArray[np.uint16]) -> int:
        """Check leaves of sequences, and return how many they hold."""
        counts = (words[:, 6].astype(np.int64) - HEAD_BYTES) // 2
        wrong = (words[:, 4] != 8) | (counts < 1) | (HEAD_BYTES + 8 * counts > self._size)
        if wrong.any():
            raise DamageError(f"{shape.name} has a page of sequences that holds something else")
        return int(counts.sum())

    def _nodes(self, shape: _Shape, pages: Bytes) -> _Nodes:
        """Return the nodes of pages, all within their page up to the end of their keys."""
        words = pages.view(np.uint16)
        lower, upper = words[:, 6].astype(np.int64), words[:, 7].astype(np.int64)
        if np.any((lower <= HEAD_BYTES) | (lower % 2 > 0) | (lower > upper) | (upper > self._size)):
            raise DamageError(f"{shape.name} has a page whose bounds are wrong")
        counts = (lower - HEAD_BYTES) // 2
        page = np.repeat(np.arange(len(pages)), counts)
        number = np.arange(len(page)) - np.repeat(np.cumsum(counts) - counts, counts)
        offsets = words[page, HEAD_BYTES // 2 + number].astype(np.int64)
        if np.any((offsets < upper[page]) | (offsets + NODE_BYTES > self._size)):
            raise DamageError(f"{shape.name} has a node outside its page")
        at = page * self._size + offsets
        fields = pages.reshape(-1)[at[:, None] + np.arange(NODE_BYTES)].view(np.uint16)
        low, high, flags, key_bytes = fields.astype(np.int64).T
        if np.any(offsets + NODE_BYTES + key_bytes > self._size):
            raise DamageError(f"{shape.name} has a key that ends outside its page")
        value_at = at + NODE_BYTES + key_bytes
        return _Nodes(page, at, flags, key_bytes, number == 0, low | high << 16, value_at)

    def _check_leaves(self, shape: _Shape, pages: Bytes, nodes: _Nodes, found: _Found) -> None:
        if shape.integers and np.any(nodes.key_bytes != 8):
            raise DamageError(f"{shape.name} has a key that is no sequence")
        if not np.isin(nodes.flags, shape.values).all():
            raise DamageError(f"{shape.name} has a value of a wrong kind")
        inline = np.where(nodes.flags == BIG_VALUE, 8, nodes.low)
        if np.any(nodes.value_at - nodes.page * self._size + inline > self._size):
            raise DamageError(f"{shape.name} has a value that ends outside its page")
        flat = pages.reshape(-1)
        plain = nodes.where(nodes.flags == 0)
        found.entries += len(plain.at)
        if MANY_VALUES in shape.values and np.any(plain.low != 8):
            raise DamageError(f"{shape.name} has a value that is no sequence")
        if shape.is_free:
            found.values += [_value(flat, plain, each) for each in range(len(plain.at))]
        self._check_large(shape, flat, nodes.where(nodes.flags == BIG_VALUE), found)
        self._check_lists(shape, flat, nodes.where(nodes.flags == MANY_VALUES), found)
        self._find_trees(shape, flat, nodes.where(nodes.flags & TREE_VALUE > 0), found)

    def _check_large(self, shape: _Shape, flat: Bytes, nodes: _Nodes, found: _Found) -> None:
        if not len(nodes.at):
            return
        first = flat[nodes.value_at[:, None] + np.arange(8)].view(np.int64)[:, 0]
        counts = (HEAD_BYTES - 1 + nodes.low) // self._size + 1
        self._use(shape, first, counts)
        heads = np.ascontiguousarray(self._pages[first, :HEAD_BYTES])
        right = heads[:, :8].copy().view(np.int64)[:, 0] == first
        right &= heads.view(np.uint16)[:, 5] == LARGE
        right &= heads.view(np.uint32)[:, 3] == counts
        if not right.all():
            raise DamageError(f"{shape.name} leads to a large value that is another page")
        found.entries += len(first)
        if shape.is_free:
            for page, size in zip(first.tolist(), nodes.low.tolist(), strict=True):
                start = page * self._size + HEAD_BYTES
                found.values.append(self._pages.reshape(-1)[start : start + size].tobytes())

    def _check_lists(self, shape: _Shape, flat: Bytes, nodes: _Nodes, found: _Found) -> None:
        """Check values that are small pages of sequences."""
        if not len(nodes.at):
            return
        if np.any(nodes.low < HEAD_BYTES):
            raise DamageError(f"{shape.name} has a list of sequences without a head")
        heads = flat[nodes.value_at[:, None] + np.arange(HEAD_BYTES)].view(np.uint16)
        counts = (heads[:, 6].astype(np.int64) - HEAD_BYTES) // 2
        wrong = (heads[:, 4] != 8) | (counts < 1) | (HEAD_BYTES + 8 * counts > nodes.low)
        if np.any(wrong | (heads[:, 5] & ~np.uint16(DIRTY) != LEAF | FIXED | INNER)):
            raise DamageError(f"{shape.name} has a list of sequences that holds something else")
        found.entries += int(counts.sum())

    def _find_trees(self, shape: _Shape, flat: Bytes, nodes: _Nodes, found: _Found) -> None:
        """Note values that are heads of trees."""
        for each in range(len(nodes.at)):
            value = _value(flat, nodes, each)
            key = flat[nodes.at[each] + NODE_BYTES : nodes.value_at[each]].tobytes()
            if len(value) != TREE_BYTES:
                raise DamageError(f"{shape.name} has a broken tree under {key!r}")
            found.trees.append((key, Tree.unpack(value)))
            found.entries += int(nodes.flags[each] == TREE_VALUE)

    def _check_free(self, values: list[bytes]) -> None:
        """Check the lists of free pages: a length, then pages in descending order."""
        for value in values:
            pages = np.frombuffer(value[: len(value) // 8 * 8], np.int64)
            if len(value) % 8 or not len(pages) or pages[0] != len(pages) - 1:
                raise DamageError("a list of free pages is broken")
            pages = pages[1:]
            if np.any(pages[1:] >= pages[:-1]) or np.any((pages < 2) | (pages >= self._end)):
                raise DamageError("a list of free pages names pages that the file does not have")
            if self._used[pages].any():
                raise DamageError("a list of free pages names a page that is in use")
            self._used[pages] = True


def _value(flat: Bytes, nodes: _Nodes, each: int) -> bytes:
    start = int(nodes.value_at[each])
    return flat[start : start + int(nodes.low[each])].tobytes()
