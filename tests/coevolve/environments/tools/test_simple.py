"""Verdicts on plain classes: a turn passes if and only if its state is the reference's."""

import collections
import datetime
import decimal
import enum
import io
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from coevolve.environments.tools.calls import Call
from coevolve.environments.tools.simple import PlainToolSet
from protocols.errors import SimulatorError


class Queue:
    def reset(self, world: Any) -> None:
        self.waiting = collections.deque(world)

    def put(self, value: str) -> None:
        """Let somebody wait."""
        self.waiting.append(value)


class Ledger(dict[str, Any]):
    def __init__(self) -> None:
        super().__init__()

    def reset(self, world: Any) -> None:
        self.clear()
        self |= world

    def put(self, value: str) -> None:
        """Enter an amount."""
        self["amount"] = decimal.Decimal(value)


class Diary:
    __slots__ = ("day", "page")

    def reset(self, world: Any) -> None:
        self.page = io.StringIO(world)

    def put(self, value: str) -> None:
        """Write on a page."""
        self.page.write(value)


class Calendar(Diary):
    def put(self, value: str) -> None:
        """Set the day."""
        self.day = datetime.date.fromisoformat(f"2026-01-0{value}")


class Playlist:
    def reset(self, world: Any) -> None:
        self.songs = collections.OrderedDict(a=1, b=2)

    def put(self, value: str) -> None:
        """Move a song to the end."""
        self.songs.move_to_end("ba"[int(value) % 2])


class Browser:
    """Has the names of attributes that one of the built-in simulators uses."""

    def reset(self, world: Any) -> None:
        self._current_dir = "/home"
        self.parent = self.contents = self._last_modified = None

    def put(self, value: str) -> None:
        """Change a setting."""
        self._last_modified = self.parent = self._current_dir = value


class Shelf:
    class Box:
        def __init__(self, content: str) -> None:
            self.content = self.contents = content
            self.parent: object = self

    def reset(self, world: Any) -> None:
        self.boxes = [self.Box("1")]
        self.boxes[0].parent = self

    def put(self, value: str) -> None:
        """Put a box on the shelf."""
        self.boxes.append(self.Box(value))


class Lamp:
    class State(enum.Flag):
        ON = 1
        BRIGHT = 2

    def reset(self, world: Any) -> None:
        self.state_of = {"hall": self.State(0)}

    def put(self, value: str) -> None:
        """Set the lamp."""
        self.state_of["hall"] = self.State(int(value))


class Doubles:
    def reset(self, world: Any) -> None:
        self.apply: Callable[[int], int] = abs

    def put(self, value: str) -> None:
        """Set a factor."""
        factor = int(value)
        self.apply = lambda number: number * factor


class Buffer:
    def reset(self, world: Any) -> None:
        self.held = bytearray(8)

    def put(self, value: str) -> None:
        """Set a byte."""
        self.held[0] = int(value)


class Typed:
    def reset(self, world: Any) -> None:
        self.flag: object = None

    def put(self, value: str) -> None:
        """Set a flag, to a truth value for 1."""
        self.flag = value == "1" or int(value) // 2


class Linked:
    def reset(self, world: Any) -> None:
        self.value, self.first, self.last = "0", self, self

    def put(self, value: str) -> None:
        """Put a value behind the last one."""
        following = Linked()
        following.value, following.first, following.last = value, self.first, self.last
        self.last = following


CLASSES = [Queue, Ledger, Diary, Calendar, Playlist, Browser, Shelf, Lamp, Doubles, Buffer]
MORE = [Typed, Linked]


def after(kind: type[Any], *values: str) -> Any:
    """Return the tools of a class after calls with these values."""
    tools = PlainToolSet(kind).open("" if kind in (Diary, Calendar) else {}, long_context=False)
    for value in values:
        tools.call(Call(tool="put", positional=(value,), named={}))
        assert tools.weigh()
    return tools


@pytest.mark.parametrize("kind", CLASSES + MORE)
def test_a_wrong_call_fails_and_the_right_one_passes(kind: type[Any]) -> None:
    reference = after(kind, "1")
    assert after(kind, "1").fault(reference, checks_directory=False) == ""
    for wrong in (after(kind, "2"), after(kind), after(kind, "1", "2")):
        assert wrong.fault(reference, checks_directory=False) == "instance_state_mismatch"


class Connected:
    def reset(self, world: Any) -> None:
        self.rows = [sqlite3.connect(":memory:")]

    def put(self, value: str) -> None:
        """Do nothing."""


class Telling(Connected):
    def state(self) -> Any:
        return {"rows": self.rows}


def test_what_cannot_be_compared_is_named_by_its_place_with_a_remedy_for_the_class() -> None:
    with pytest.raises(SimulatorError, match=r"^self\.rows\[0\]: .*; define state\(\), which ret"):
        after(Connected).digest()
    with pytest.raises(SimulatorError, match=r"^state\(\)\['rows'\]\[0\]: .*; leave it out of sta"):
        after(Telling).digest()
