"""Runs a program under `trace.c`, and reads what it recorded."""

import os
import struct
import subprocess
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parent / "trace.c"

_HEAD = struct.Struct("<IIQQQQ")


class Kind(IntEnum):
    """What a call does; `END` follows the call that it names."""

    END = 0
    WRITE = 1
    SYNC = 2
    TRUNCATE = 3
    CREATE = 4
    RENAME = 5
    REMOVE = 6
    MARK = 7


class Event(NamedTuple):
    """One event; for a call, what it does, recorded before it is done."""

    kind: Kind
    number: int
    """Of the call."""

    offset: int
    """Where a write begins, or the size after a truncation."""

    flag: bool
    """A write is synchronous; what is created is a folder; a call failed (in its `END`)."""

    name: str
    """Path from the root, or the text of a mark."""

    data: bytes
    """The bytes written, or the new path of a renamed file."""


class Trace:
    """All events of one or more processes, in their order."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events

    @cached_property
    def ends(self) -> dict[int, int]:
        """Place of the end of each call that ended without an error, by the call's number."""
        return {
            event.number: place
            for place, event in enumerate(self.events)
            if event.kind == Kind.END and not event.flag
        }

    @cached_property
    def places(self) -> dict[int, int]:
        """Place of the beginning of each call, by the call's number."""
        return {
            event.number: place for place, event in enumerate(self.events) if event.kind != Kind.END
        }

    @cached_property
    def failed(self) -> frozenset[int]:
        """Numbers of the calls that failed."""
        return frozenset(e.number for e in self.events if e.kind == Kind.END and e.flag)

    def end(self, event: Event) -> int:
        """Return the place of the call's end; after all events if the process died in it."""
        return self.ends.get(event.number, len(self.events))


class Recording:
    """The trace of processes that work one after the other, some of which are killed."""

    def __init__(self, root: Path, file: Path) -> None:
        self._root = root
        self._file = file
        self._read_bytes = 0
        self._events: list[Event] = []

    def trace(self) -> Trace:
        """Return the events so far; call it after each process, before the files change.

        A killed process may have begun a call that never came to the files: such a call is changed
        into what it did.
        """
        content = self._file.read_bytes()[self._read_bytes :]
        self._read_bytes += len(content)
        events = [_relative(event, self._root) for event in _read(content)]
        ended = {event.number for event in events if event.kind == Kind.END}
        for event in events:
            if event.kind in (Kind.END, Kind.MARK) or event.number in ended:
                self._events.append(event)
            elif (done := self._done(event)) is not None:
                self._events.append(done)
        return Trace(list(self._events))

    def _done(self, event: Event) -> Event | None:
        """Return what a call without an end did, by its file; None if it did nothing."""
        file = self._root / event.name
        match event.kind:
            case Kind.WRITE if file.is_file():
                content = file.read_bytes()
                return event._replace(data=content[event.offset : event.offset + len(event.data)])
            case Kind.TRUNCATE if file.is_file():
                return event._replace(offset=file.stat().st_size)
            case Kind.CREATE if not file.exists():
                return None
            case Kind.RENAME | Kind.REMOVE if file.exists():
                return None
            case _:
                return event


def compiled(folder: Path) -> Path:
    """Compile the library into ``folder``. Raises OSError or CalledProcessError."""
    library = folder / "trace.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


def traced(
    library: Path, command: Sequence[str], *, root: Path, file: Path
) -> "subprocess.Popen[str]":
    """Start a program whose work below ``root`` is added to ``file``."""
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "TRACE_ROOT": str(root),
        "TRACE_FILE": str(file),
    }
    return subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def _read(content: bytes) -> Iterator[Event]:
    at = 0
    while at < len(content):
        kind, flag, number, offset, name_bytes, data_bytes = _HEAD.unpack_from(content, at)
        name_at = at + _HEAD.size
        data_at = name_at + name_bytes
        at = data_at + data_bytes
        name = content[name_at:data_at].decode()
        yield Event(Kind(kind), number, offset, bool(flag), name, content[data_at:at])


def _relative(event: Event, root: Path) -> Event:
    if event.kind in (Kind.END, Kind.MARK):
        return event
    place = f"{root}/"
    data = event.data
    if event.kind == Kind.RENAME:
        data = data.decode().removeprefix(place).encode()
    return event._replace(name=f"{event.name}/".removeprefix(place).rstrip("/"), data=data)
