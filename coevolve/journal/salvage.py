"""Reads what is whole in a damaged journal, page by page, without LMDB and without trust.

It follows the trees from the newest head and leaves out what makes no sense. What a tree has lost
may lie in pages that nothing leads to any more: a record is looked for in all pages of the file, up
to the last sequence that the root names; so is a row, of which the newest version counts. Nothing
is taken whose checksum does not match.
"""

import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from coevolve.journal.checksums import (
    MASK,
    DamageError,
    check_of,
    entries_check,
    unseal,
)
from coevolve.journal.heads import Head, Tree, read_head
from coevolve.journal.layout import (
    ROOT_KEY,
    Tables,
    sequence_of,
    unpack_entries,
    unpack_names,
    unpack_pair,
    unpack_triple,
)
from coevolve.journal.pages import (
    BIG_VALUE,
    BRANCH,
    FIXED,
    HEAD_BYTES,
    LEAF,
    MANY_VALUES,
    NODE_BYTES,
    TREE_VALUE,
)
from coevolve.journal.root import (
    ACKS,
    CONSUMERS,
    INDEXES,
    MAIN,
    PRODUCERS,
    RECORDS,
    SEATS,
    Root,
)
from protocols.errors import JournalFormatError

ROW_TABLES = (CONSUMERS, SEATS, PRODUCERS)
USUAL_PAGE_BYTES = 4096
_PAGE = struct.Struct("<QHHHH")
_NODE = struct.Struct("<HHHH")


class _Node(NamedTuple):
    key: bytes
    flags: int
    size: int
    value_at: int
    """Offset in the file."""


@dataclass
class Salvaged:
    """What is whole in a journal."""

    root: Root | None = None
    """The root; None if it is lost."""

    records: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """Sequence -> offset and size of its value in the file."""

    rows: dict[int, dict[bytes, bytes]] = field(default_factory=dict[int, dict[bytes, bytes]])
    """Table -> key -> value with its checksum."""

    acks: dict[bytes, list[int]] = field(default_factory=dict[bytes, list[int]])
    listed: dict[int, list[bytes]] = field(default_factory=dict[int, list[bytes]])
    """Sequence -> index entries that lead to it."""

    found_elsewhere: int = 0
    """Records that no tree leads to any more."""

    uncertain: list[int] = field(default_factory=list[int])
    """Tables whose rows are not all, or not all the newest."""

    @property
    def last(self) -> int:
        """The last sequence that the journal assigned, as far as is known."""
        return max(self.root.last if self.root else 0, *self.records, *self.listed, 0)


class Salvage:
    """The file of a damaged journal."""

    def __init__(self, file: Path) -> None:
        self.content = _mapped(file)
        try:
            self._head: Head | None = read_head(file)
        except JournalFormatError:
            self._head = None
        self._page_bytes = self._head.page_bytes if self._head else USUAL_PAGE_BYTES
        self._pages = len(self.content) // self._page_bytes

    def read(self) -> Salvaged:
        found = Salvaged()
        trees = self._trees()
        self._read_root(found)
        self._read_entries(found, trees)
        self._take_records(found, self._walk(trees.get(b"records")))
        if found.root is None or len(found.records) < found.root.count(RECORDS):
            before = len(found.records)
            self._take_records(found, self._every_node())
            found.found_elsewhere = len(found.records) - before
        for table in ROW_TABLES:
            self._read_rows(found, table, trees)
        return found

    def _trees(self) -> dict[bytes, Tree]:
        if self._head is None:
            return {}
        return {
            node.key: Tree.unpack(self._bytes(node))
            for node in self._walk(self._head.main)
            if node.flags == TREE_VALUE and node.size == 48
        }

    def _read_root(self, found: Salvaged) -> None:
        if self._head is None:
            return
        for node in self._walk(self._head.main):
            if node.key == ROOT_KEY:
                try:
                    payload, _ = unseal(MAIN, ROOT_KEY, self._bytes(node))
                    found.root = Root.unpack(payload, self._head.transaction)
                except DamageError:
                    return

    def _take_records(self, found: Salvaged, nodes: Iterator[_Node]) -> None:
        """Add the whole records among ``nodes``, which were committed as far as is known."""
        last = found.root.last if found.root else MASK
        for node in nodes:
            sequence = sequence_of(node.key)
            if len(node.key) != 8 or sequence in found.records or not 1 <= sequence <= last:
                continue
            place = self._place(node)
            try:
                unpack_entries(sequence, memoryview(self.content)[place[0] : sum(place)])
            except DamageError:
                continue
            found.records[sequence] = place

    def _read_entries(self, found: Salvaged, trees: dict[bytes, Tree]) -> None:
        for table in (INDEXES, ACKS):
            lists = dict(self._lists(trees.get(Tables._fields[table].encode())))
            if not _is_complete(found.root, table, _entries_sum(lists)):
                found.uncertain.append(table)
            if table == ACKS:
                found.acks = lists
                continue
            for entry, sequences in lists.items():
                for sequence in sequences:
                    found.listed.setdefault(sequence, []).append(entry)

    def _read_rows(self, found: Salvaged, table: int, trees: dict[bytes, Tree]) -> None:
        rows: dict[bytes, bytes] = {}
        self._take_rows(rows, table, self._walk(trees.get(Tables._fields[table].encode())))
        check = sum(check_of(row) for row in rows.values())
        if not _is_complete(found.root, table, (len(rows), check)):
            self._take_rows(rows, table, self._every_node())
            check = sum(check_of(row) for row in rows.values())
            if not _is_complete(found.root, table, (len(rows), check)):
                found.uncertain.append(table)
        found.rows[table] = rows

    def _take_rows(self, rows: dict[bytes, bytes], table: int, nodes: Iterator[_Node]) -> None:
        """Add the whole rows of a table among ``nodes``, of each the newest version."""
        for node in nodes:
            value = self._bytes(node)
            try:
                payload, _ = unseal(table, node.key, value)
            except DamageError:
                continue
            known = rows.get(node.key)
            if known is None or _age(table, payload) > _age(table, known[8:]):
                rows[node.key] = value

    def _lists(self, tree: Tree | None) -> Iterator[tuple[bytes, list[int]]]:
        """Yield the keys of a table of entries, and the sequences of each."""
        for node in self._walk(tree):
            value = self._bytes(node)
            if node.flags == 0 and len(value) == 8:
                yield node.key, [sequence_of(value)]
            elif node.flags == MANY_VALUES and len(value) >= HEAD_BYTES:
                yield node.key, _sequences(value)
            elif node.flags == MANY_VALUES | TREE_VALUE and len(value) == 48:
                inner = self._leaf_pages(Tree.unpack(value))
                yield node.key, [each for page in inner for each in _sequences(self._page(page))]

    def _every_node(self) -> Iterator[_Node]:
        for page in range(2, self._pages):
            if self._kind(page) == LEAF:
                yield from self._nodes(page)

    def _walk(self, tree: Tree | None) -> Iterator[_Node]:
        for page in self._leaf_pages(tree):
            if self._kind(page) == LEAF:
                yield from self._nodes(page)

    def _leaf_pages(self, tree: Tree | None) -> Iterator[int]:
        waiting = [tree.root] if tree is not None and tree.depth else []
        seen: set[int] = set()
        while waiting:
            page = waiting.pop()
            if page in seen or not 2 <= page < self._pages:
                continue
            seen.add(page)
            if self._kind(page) == BRANCH:
                nodes = list(self._nodes(page))
                waiting += [node.size | node.flags << 32 for node in reversed(nodes)]
            elif self._kind(page) & LEAF:
                yield page

    def _kind(self, page: int) -> int:
        return _PAGE.unpack_from(self.content, page * self._page_bytes)[2] & (LEAF | BRANCH | FIXED)

    def _nodes(self, page: int) -> Iterator[_Node]:
        """Yield the nodes of a page that lie within it."""
        start = page * self._page_bytes
        lower = min(_PAGE.unpack_from(self.content, start)[3], self._page_bytes)
        for at in range(HEAD_BYTES, lower - 1, 2):
            offset = int.from_bytes(self.content[start + at : start + at + 2], "little")
            if offset + NODE_BYTES > self._page_bytes:
                continue
            low, high, flags, key_bytes = _NODE.unpack_from(self.content, start + offset)
            key_at = start + offset + NODE_BYTES
            if offset + NODE_BYTES + key_bytes <= self._page_bytes:
                key = self.content[key_at : key_at + key_bytes]
                yield _Node(key, flags, low | high << 16, key_at + key_bytes)

    def _place(self, node: _Node) -> tuple[int, int]:
        """Return the offset and the size of a node's value."""
        if node.flags != BIG_VALUE:
            return node.value_at, node.size
        page = int.from_bytes(self.content[node.value_at : node.value_at + 8], "little")
        return page * self._page_bytes + HEAD_BYTES, node.size

    def _bytes(self, node: _Node) -> bytes:
        start, size = self._place(node)
        return self.content[start : start + size]

    def _page(self, page: int) -> bytes:
        return self.content[page * self._page_bytes : (page + 1) * self._page_bytes]


def _mapped(file: Path) -> bytes | mmap.mmap:
    """Return the file's bytes, of which only those that are looked at come into memory."""
    with file.open("rb") as opened:
        if not os.fstat(opened.fileno()).st_size:
            return b""
        return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)


def _sequences(page: bytes) -> list[int]:
    """Return the sequences in a page, or in a part of one, that holds nothing else."""
    count = max(0, (_PAGE.unpack_from(page)[3] - HEAD_BYTES) // 2)
    held = page[HEAD_BYTES : HEAD_BYTES + 8 * count]
    return [each for (each,) in struct.iter_unpack("<Q", held[: len(held) // 8 * 8])]


def _entries_sum(lists: dict[bytes, list[int]]) -> tuple[int, int]:
    pairs = [(entry, each) for entry, sequences in lists.items() for each in sequences]
    check = entries_check([entry for entry, _ in pairs], [each for _, each in pairs])
    return len(pairs), check


def _is_complete(root: Root | None, table: int, found: tuple[int, int]) -> bool:
    if root is None:
        return False
    return found[0] == root.count(table) and found[1] & MASK == root.sum(table)


def _age(table: int, payload: bytes) -> int:
    """Return a number that grows with each version of a row."""
    if table == CONSUMERS:
        return unpack_pair(payload)[1]
    if table == PRODUCERS:
        return unpack_triple(payload)[0]
    return len(unpack_names(payload))
