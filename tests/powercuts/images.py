"""Builds what a disk may hold if the power fails at some place of a trace.

The disk has every write that a finished flush of its file covers, or that was synchronous. Of the
others it has any part: each block of 512 or 4096 bytes, or each write, is there or not, regardless
of their order. Names (new files and folders, renames, removals) reach the disk in their order, as
on every file system with a journal, and surely when the folder was flushed. The flush of a file
does not keep its name, and a rename does not keep the file's content.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.powercuts.trace import Event, Kind, Trace

SHARES = (0.0, 0.1, 0.5, 0.9, 1.0)
"""Share of the unflushed blocks that is on the disk."""

BLOCKS = (512, 4096, 1 << 40)
"""Bytes that a disk writes completely or not at all; the last is any whole write."""

GONE = " (deleted)"
"""How Linux ends the path of an open file that was removed."""


class _Node:
    """A file or folder, whatever its name is."""

    def __init__(self, *, is_folder: bool) -> None:
        self.is_folder = is_folder
        self.content = bytearray()
        """What is surely on the disk."""

        self.writes: list[Event] = []
        """Later writes and truncations."""

        self.flushed = -1
        """Place at which the last finished flush began."""


class _Change(NamedTuple):
    """A change of names."""

    event: Event
    node: _Node
    folder: _Node
    """The folder that has to be flushed to keep it."""


class Disk:
    """The files and names at one place of a trace, which only moves forward."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._cut = 0
        self._names = {"": _Node(is_folder=True)}
        self._changes: list[_Change] = []
        self._flushes: dict[int, _Node] = {}
        """The node of each flush that has begun."""

    def advance(self, cut: int) -> None:
        """Replay everything from the last place up to the event at ``cut``."""
        for event in self._trace.events[self._cut : cut]:
            self._cut += 1
            if event.kind == Kind.END:
                self._end(event)
            elif event.kind != Kind.MARK and event.number not in self._trace.failed:
                self._begin(event)

    def write(self, folder: Path, chance: random.Random) -> None:
        """Write one of the possible disks into ``folder``."""
        share, block = chance.choice(SHARES), chance.choice(BLOCKS)
        changes = self._changes[: chance.randint(self._kept_changes(), len(self._changes))]
        for path, node in _named(changes):
            place = folder / path
            if node.is_folder:
                place.mkdir(parents=True)
            else:
                place.write_bytes(self._content(node, share, block, chance))

    def write_all(self, folder: Path) -> None:
        """Write what the running system shows into ``folder``."""
        for path, node in _named(self._changes):
            place = folder / path
            if node.is_folder:
                place.mkdir(parents=True)
            else:
                place.write_bytes(self._content(node, 1.0, BLOCKS[-1], random.Random(0)))

    def _begin(self, event: Event) -> None:
        if event.name.endswith(GONE):
            return
        match event.kind:
            case Kind.CREATE:
                self._names[event.name] = _Node(is_folder=event.flag)
                self._change(event, event.name, event.name)
            case Kind.RENAME:
                target = event.data.decode()
                self._change(event, event.name, target)
                _move(self._names, event.name, target)
            case Kind.REMOVE:
                self._change(event, event.name, event.name)
                del self._names[event.name]
            case Kind.SYNC:
                self._flushes[event.number] = self._names[event.name]
            case _:
                self._names[event.name].writes.append(event)

    def _end(self, event: Event) -> None:
        node = self._flushes.pop(event.number, None)
        if node is None:
            return
        node.flushed = self._trace.places[event.number]
        while node.writes and self._is_flushed(node.writes[0], node):
            _apply(node.content, node.writes.pop(0), block=BLOCKS[-1], kept=_always)

    def _change(self, event: Event, name: str, target: str) -> None:
        folder = self._names[target.rpartition("/")[0]]
        self._changes.append(_Change(event, self._names[name], folder))

    def _kept_changes(self) -> int:
        """Return how many changes of names are surely on the disk."""
        kept = 0
        for number, change in enumerate(self._changes, 1):
            if self._is_flushed(change.event, change.folder):
                kept = number
        return kept

    def _is_flushed(self, event: Event, node: _Node) -> bool:
        if event.kind == Kind.WRITE and event.flag:
            return self._trace.end(event) < self._cut
        return self._trace.end(event) < node.flushed

    def _content(self, node: _Node, share: float, block: int, chance: random.Random) -> bytes:
        content = bytearray(node.content)
        for event in node.writes:
            if self._is_flushed(event, node):
                _apply(content, event, block=BLOCKS[-1], kept=_always)
            else:
                _apply(content, event, block=block, kept=lambda: chance.random() < share)
        return bytes(content)


def _named(changes: list[_Change]) -> list[tuple[str, _Node]]:
    """Return the nodes below the root by path, each folder before its content."""
    names: dict[str, _Node] = {}
    for event, node, _ in changes:
        if event.kind == Kind.CREATE:
            names[event.name] = node
        elif event.kind == Kind.REMOVE:
            del names[event.name]
        else:
            _move(names, event.name, event.data.decode())
    return sorted(names.items(), key=lambda named: named[0].split("/"))


def _move(names: dict[str, _Node], source: str, target: str) -> None:
    """Rename a file or a folder with everything in it."""
    for path in [each for each in names if each == source or each.startswith(f"{source}/")]:
        names[target + path.removeprefix(source)] = names.pop(path)


def _always() -> bool:
    return True


def _apply(content: bytearray, event: Event, *, block: int, kept: Callable[[], bool]) -> None:
    """Do a truncation, or the blocks of a write, for which ``kept`` says so."""
    if event.kind == Kind.TRUNCATE:
        if kept():
            _resize(content, event.offset)
        return
    for at, part in _blocks(event, block):
        if kept():
            _resize(content, max(len(content), at + len(part)))
            content[at : at + len(part)] = part


def _resize(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


def _blocks(event: Event, block: int) -> Iterator[tuple[int, bytes]]:
    """Yield the parts of a write that lie in one block each."""
    at, end = event.offset, event.offset + len(event.data)
    while at < end:
        until = min(end, (at // block + 1) * block)
        yield at, event.data[at - event.offset : until - event.offset]
        at = until
