"""The digest of any state: equal if and only if no read tells two states apart, else refused."""

# pyright: basic

import array
import collections
import contextvars
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import io
import ipaddress
import itertools
import logging
import math
import operator
import os
import pathlib
import queue
import random
import re
import socket
import sqlite3
import string
import subprocess
import sys
import threading
import types
import typing
import uuid
import weakref
import zoneinfo
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.environments.tools.digest import digest
from protocols.errors import SimulatorError


class Plain:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__ |= attributes


class Node:
    def __init__(self, value: Any) -> None:
        self.value = value
        self.before: Node | None = None
        self.after: Node | None = None


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: Any) -> None:
        self.a = a


class SlottedBelow(Slotted):
    __slots__ = ("c",)


class SlottedWithMore(SlottedBelow):
    pass


class Hidden:
    def __init__(self, secret: Any) -> None:
        self.__secret = secret

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


class Days(datetime.date):
    note = ""


class Money(decimal.Decimal):
    pass


class Names(list[Any]):
    pass


class Prices(dict[str, Any]):
    pass


class Tags(set[Any]):
    pass


class Word(str):
    pass


class Count(int):
    pass


class Share(float):
    pass


class Raw(bytes):
    pass


class Row(tuple[Any, ...]):
    pass


class Line(collections.deque[Any]):
    pass


class Paper(io.StringIO):
    pass


class Dice(random.Random):
    pass


class Place(pathlib.PurePosixPath):
    pass


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Point(typing.NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Item:
    name: str
    tags: list[str] = dataclasses.field(default_factory=list[str])


@dataclasses.dataclass(frozen=True, slots=True)
class Sealed:
    name: str


class Message(msgspec.Struct):
    text: str
    number: int = 0


class Kept(msgspec.Struct, frozen=True, tag="kept"):
    text: str


def given_attributes(value: Any, **attributes: Any) -> Any:
    for name, attribute in attributes.items():
        setattr(value, name, attribute)
    return value


def advanced(value: Any, steps: int) -> Any:
    for _ in range(steps):
        next(value)
    return value


def after(value: Any, *deeds: Callable[[Any], Any]) -> Any:
    for deed in deeds:
        deed(value)
    return value


def ring(*values: Any) -> Node:
    nodes = [Node(value) for value in values]
    for one, other in itertools.pairwise((*nodes, nodes[0])):
        one.after, other.before = other, one
    return nodes[0]


def nested(depth: int, period: int) -> list[Any]:
    """Return a list that leads into a cycle of ``period`` lists after ``depth`` lists."""
    cycle: list[list[Any]] = [[] for _ in range(period)]
    for one, other in itertools.pairwise((*cycle, cycle[0])):
        one.append(other)
    return functools.reduce(lambda inner, _: [inner], range(depth), cycle[0])


def chain(length: int) -> list[Any]:
    return functools.reduce(lambda inner, _: [inner], range(length), [])


def adder(number: int) -> Callable[[int], int]:
    return lambda value: value + number


def twice(value: Any) -> list[Any]:
    return [value, value]


def graph(*edges: tuple[int, int]) -> list[dict[str, Any]]:
    rooms = [{"name": n, "doors": []} for n in range(4)]
    for one, other in edges:
        rooms[one]["doors"].append(rooms[other])
    return rooms


Make = Callable[[], Any]
UTC, DAY = datetime.UTC, datetime.date(2026, 1, 2)
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
NOON = datetime.datetime(2026, 1, 2, 12)
POINT_X, POINT_Y = (collections.namedtuple("Spot", names) for names in ("a b", "b a"))

DERIVED: tuple[tuple[Any, Any, Any], ...] = (
    (Days, (2026, 1, 2), (2026, 1, 3)),
    (Money, ("1",), ("2",)),
    (Names, ([1],), ([2],)),
    (Prices, ({"a": 1},), ({"a": 2},)),
    (Tags, ([1],), ([2],)),
    (Word, ("a",), ("b",)),
    (Count, (1,), (2,)),
    (Share, (0.5,), (1.5,)),
    (Raw, (b"a",), (b"b",)),
    (Row, ([1],), ([2],)),
    (Line, ([1],), ([2],)),
    (Paper, ("a",), ("b",)),
    (Dice, (1,), (2,)),
    (Place, ("a",), ("b",)),
)

KINDS: dict[str, tuple[tuple[Make, ...], ...]] = {
    "None": ((lambda: None, lambda: None), (lambda: False,), (lambda: "None",)),
    "bool": ((lambda: True, lambda: not False), (lambda: False,), (lambda: 1,)),
    "int": ((lambda: 10**40, lambda: 10**40), (lambda: 10**40 + 1,), (lambda: 1e40,)),
    "float": ((lambda: 0.5, lambda: 1 / 2), (lambda: 0.5000001,), (lambda: "0.5",)),
    "zero": ((lambda: 0.0, lambda: 0.0 + 0.0), (lambda: -0.0,), (lambda: 0,)),
    "NaN": ((lambda: math.nan, lambda: math.inf - math.inf), (lambda: math.inf,)),
    "complex": ((lambda: 1 + 2j, lambda: complex(1, 2)), (lambda: 1 - 2j,), (lambda: 1,)),
    "str": ((lambda: "ab", lambda: "a" + "b"), (lambda: "ba",), (lambda: b"ab",)),
    "surrogates": ((lambda: "\ud800", lambda: "\ud800"), (lambda: "\ud801",), (lambda: "?",)),
    "bytes": ((lambda: b"ab", lambda: b"a" + b"b"), (lambda: b"ba",)),
    "bytearray": (
        (lambda: bytearray(b"ab"), lambda: bytearray([97, 98])),
        (lambda: bytearray(b"ba"),),
        (lambda: b"ab",),
    ),
    "list": ((lambda: [1, [2]], lambda: [*[1], [2]]), (lambda: [[2], 1],), (lambda: (1, [2]),)),
    "tuple": ((lambda: (1, 2), lambda: (1, 2)), (lambda: (2, 1),), (lambda: (1, 2, 3),)),
    "depths": ((lambda: [[1], 2], lambda: [[1], 2]), (lambda: [[1, 2]],), (lambda: [[1], [2]],)),
    "set": ((lambda: {1, 9, 17}, lambda: {17, 9, 1}), (lambda: {1, 9},), (lambda: [1, 9, 17],)),
    "frozenset": (
        (lambda: frozenset("abc"), lambda: frozenset("cba")),
        (lambda: frozenset("ab"),),
        (lambda: set("abc"),),
    ),
    "dict": (
        (lambda: {"a": 1, "b": 2}, lambda: {"b": 2, "a": 1}),
        (lambda: {"a": 2, "b": 1},),
        (lambda: {"a": 1},),
    ),
    "keys": ((lambda: {1: "a"}, lambda: {1: "a"}), (lambda: {"1": "a"},)),
    "OrderedDict": (
        (
            lambda: collections.OrderedDict(a=1, b=2),
            lambda: after(
                collections.OrderedDict(b=2, a=1), operator.methodcaller("move_to_end", "b")
            ),
        ),
        (lambda: collections.OrderedDict(b=2, a=1),),
        (lambda: {"a": 1, "b": 2},),
    ),
    "defaultdict": (
        (
            lambda: collections.defaultdict(list, a=[1]),
            lambda: after(collections.defaultdict(list), lambda d: d["a"].append(1)),
        ),
        (lambda: collections.defaultdict(set, a=[1]),),
        (lambda: collections.defaultdict(list, a=[2]),),
        (lambda: collections.defaultdict(None, a=[1]),),
    ),
    "Counter": (
        (lambda: collections.Counter("aab"), lambda: collections.Counter("baa")),
        (lambda: collections.Counter("abb"),),
        (lambda: collections.Counter(a=2, b=1, c=0),),
    ),
    "ChainMap": (
        (lambda: collections.ChainMap({"a": 1}, {"a": 2}),) * 2,
        (lambda: collections.ChainMap({"a": 2}, {"a": 1}),),
        (lambda: collections.ChainMap({"a": 1}),),
    ),
    "UserDict": (
        (lambda: collections.UserDict(a=1), lambda: collections.UserDict({"a": 1})),
        (lambda: collections.UserDict(a=2),),
    ),
    "deque": (
        (
            lambda: collections.deque([1, 2]),
            lambda: after(collections.deque([2, 1]), operator.methodcaller("rotate")),
        ),
        (lambda: collections.deque([2, 1]),),
        (lambda: collections.deque([1, 2], maxlen=2),),
        (lambda: collections.deque([1, 2], maxlen=3),),
    ),
    "mappingproxy": (
        (lambda: types.MappingProxyType({"a": 1}),) * 2,
        (lambda: types.MappingProxyType({"a": 2}),),
    ),
    "array": (
        (lambda: array.array("i", [1, 2]), lambda: array.array("i", (1, 2))),
        (lambda: array.array("i", [2, 1]),),
        (lambda: array.array("h", [1, 2]),),
    ),
    "numpy array": (
        (lambda: np.arange(4), lambda: np.array([0, 1, 2, 3])),
        (lambda: np.arange(4).reshape(2, 2),),
        (lambda: np.arange(4)[::-1],),
        (lambda: np.arange(4, dtype=np.float32),),
    ),
    "numpy objects": (
        (lambda: np.array([{"a": 1}, None]),) * 2,
        (lambda: np.array([{"a": 2}, None]),),
    ),
    "numpy number": ((lambda: np.float64(0.5),) * 2, (lambda: np.float64(1),), (lambda: 0.5,)),
    "numpy generator": (
        (lambda: np.random.default_rng(1),) * 2,
        (lambda: after(np.random.default_rng(1), lambda g: g.random()),),
    ),
    "date": (
        (lambda: DAY, lambda: datetime.date.fromisoformat("2026-01-02")),
        (lambda: datetime.date(2026, 2, 1),),
    ),
    "datetime": (
        (lambda: NOON, lambda: datetime.datetime.combine(DAY, datetime.time(12))),
        (lambda: NOON.replace(tzinfo=UTC),),
        (lambda: NOON.replace(fold=1),),
        (lambda: NOON.replace(microsecond=1),),
        (lambda: NOON.replace(tzinfo=BERLIN),),
    ),
    "time": (
        (lambda: datetime.time(1, 2), lambda: datetime.time(1, 2, 0)),
        (lambda: datetime.time(1, 3),),
        (lambda: datetime.time(1, 2, tzinfo=UTC),),
    ),
    "timedelta": (
        (lambda: datetime.timedelta(hours=24), lambda: datetime.timedelta(1)),
        (lambda: datetime.timedelta(2),),
    ),
    "timezone": (
        (lambda: UTC, lambda: datetime.timezone(datetime.timedelta(0))),
        (lambda: datetime.timezone(datetime.timedelta(hours=1)),),
    ),
    "ZoneInfo": (
        (lambda: BERLIN, lambda: zoneinfo.ZoneInfo.no_cache("UTC") and BERLIN),
        (lambda: zoneinfo.ZoneInfo("Asia/Tokyo"),),
    ),
    "Decimal": (
        (lambda: decimal.Decimal("1.0"), lambda: decimal.Decimal("0.5") * 2),
        (lambda: decimal.Decimal("1.00"),),
        (lambda: decimal.Decimal("-1.0"),),
    ),
    "Fraction": (
        (lambda: fractions.Fraction(1, 2), lambda: fractions.Fraction(2, 4)),
        (lambda: fractions.Fraction(1, 3),),
    ),
    "UUID": (
        (lambda: uuid.UUID(int=1), lambda: uuid.UUID(hex="0" * 31 + "1")),
        (lambda: uuid.UUID(int=2),),
    ),
    "Path": (
        (lambda: pathlib.PurePosixPath("a/b"), lambda: after(pathlib.PurePosixPath("a", "b"), str)),
        (lambda: pathlib.PurePosixPath("a/c"),),
        (lambda: pathlib.PureWindowsPath("a/b"),),
        (lambda: pathlib.Path("a/b"),),
    ),
    "ip network": (
        (
            lambda: ipaddress.ip_network("10.0.0.0/8"),
            lambda: after(ipaddress.ip_network("10.0.0.0/8"), lambda n: n.broadcast_address),
        ),
        (lambda: ipaddress.ip_network("10.0.0.0/9"),),
    ),
    "Pattern": (
        (lambda: re.compile("a"),) * 2,
        (lambda: re.compile("b"),),
        (lambda: re.compile("a", re.I),),
    ),
    "BytesIO": (
        (
            lambda: io.BytesIO(b"ab"),
            lambda: after(io.BytesIO(), lambda b: b.write(b"ab"), lambda b: b.seek(0)),
        ),
        (lambda: io.BytesIO(b"ba"),),
        (lambda: after(io.BytesIO(b"ab"), lambda b: b.seek(1)),),
    ),
    "StringIO": (
        (lambda: io.StringIO("ab"),) * 2,
        (lambda: io.StringIO("ba"),),
        (lambda: after(io.StringIO("ab"), lambda b: b.read(1)),),
    ),
    "Random": (
        (lambda: random.Random(1),) * 2,
        (lambda: random.Random(2),),
        (lambda: after(random.Random(1), lambda r: r.random()),),
        (lambda: after(random.Random(1), lambda r: r.gauss(0, 1)),),
    ),
    "range": ((lambda: range(3), lambda: range(0, 3, 1)), (lambda: range(4),)),
    "slice": ((lambda: slice(1), lambda: slice(None, 1)), (lambda: slice(1, 2),)),
    "count": (
        (lambda: itertools.count(1), lambda: advanced(itertools.count(), 1)),
        (lambda: itertools.count(),),
    ),
    "iterator": ((lambda: advanced(iter([1, 2]), 1),) * 2, (lambda: iter([1, 2]),)),
    "cycle": (
        (lambda: advanced(itertools.cycle([1, 2]), 1),) * 2,
        (lambda: itertools.cycle([1, 2]),),
    ),
    "Ellipsis": ((lambda: ..., lambda: Ellipsis), (lambda: NotImplemented,)),
    "class": ((lambda: Plain,) * 2, (lambda: Node,), (lambda: "Plain",)),
    "module": ((lambda: math,) * 2, (lambda: re,)),
    "function": ((lambda: adder, lambda: globals()["adder"]), (lambda: ring,), (lambda: len,)),
    "lambda": (
        (lambda: adder(1), lambda: adder(1)),
        (lambda: adder(2),),
        (lambda: lambda value: value - 1,),
        (lambda: lambda value=1: value,),
    ),
    "partial": (
        (lambda: functools.partial(int, base=2),) * 2,
        (lambda: functools.partial(int, base=3),),
        (lambda: functools.partial(float),),
    ),
    "method": (
        (lambda: Plain(a=1).__init__,) * 2,
        (lambda: Plain(a=2).__init__,),
        (lambda: [1].append,),
    ),
    "itemgetter": ((lambda: operator.itemgetter(1),) * 2, (lambda: operator.itemgetter(2),)),
    "type hint": ((lambda: list[int],) * 2, (lambda: list[str],), (lambda: int | None,)),
    "logger": ((lambda: logging.getLogger("a"),) * 2, (lambda: logging.getLogger("b"),)),
    "error": ((lambda: ValueError("a"),) * 2, (lambda: ValueError("b"),), (lambda: KeyError("a"),)),
    "template": ((lambda: string.Template("$a"),) * 2, (lambda: string.Template("$b"),)),
    "namespace": ((lambda: types.SimpleNamespace(a=1),) * 2, (lambda: types.SimpleNamespace(a=2),)),
    "Enum": ((lambda: Colour.RED, lambda: Colour(1)), (lambda: Colour.BLUE,)),
    "IntEnum": ((lambda: Level.LOW, lambda: Level(1)), (lambda: Level.HIGH,), (lambda: 1,)),
    "Flag": (
        (lambda: Right.READ | Right.WRITE, lambda: Right.WRITE | Right.READ),
        (lambda: Right.READ,),
        (lambda: Right(0),),
    ),
    "NamedTuple": (
        (lambda: Point(1, 2), lambda: Point(y=2, x=1)),
        (lambda: Point(2, 1),),
        (lambda: (1, 2),),
    ),
    "namedtuple": ((lambda: POINT_X(1, 2), lambda: POINT_X(b=2, a=1)), (lambda: POINT_Y(1, 2),)),
    "dataclass": (
        (lambda: Item("a", ["b"]),) * 2,
        (lambda: Item("a", ["c"]),),
        (lambda: Item("a"),),
    ),
    "slots dataclass": ((lambda: Sealed("a"),) * 2, (lambda: Sealed("b"),)),
    "Struct": (
        (lambda: Message("a"), lambda: Message("a", 0)),
        (lambda: Message("a", 1),),
        (lambda: Message("b"),),
    ),
    "frozen Struct": ((lambda: Kept("a"),) * 2, (lambda: Kept("b"),)),
    "attributes": (
        (lambda: Plain(a=1, b=2), lambda: Plain(b=2, a=1)),
        (lambda: Plain(a=1),),
        (lambda: Plain(a=1, b=3),),
        (lambda: {"a": 1, "b": 2},),
    ),
    "names of others": (
        (lambda: Plain(_last_modified=1, parent=2, contents=3, _current_dir="/a"),) * 2,
        (lambda: Plain(_last_modified=2, parent=2, contents=3, _current_dir="/a"),),
        (lambda: Plain(_last_modified=1, parent=3, contents=3, _current_dir="/a"),),
        (lambda: Plain(_last_modified=1, parent=2, contents=3, _current_dir="/b"),),
    ),
    "slots": (
        (lambda: Slotted(1),) * 2,
        (lambda: Slotted(2),),
        (lambda: given_attributes(Slotted(1), b=None),),
    ),
    "slots of bases": (
        (lambda: given_attributes(SlottedBelow(1), c=2),) * 2,
        (lambda: given_attributes(SlottedBelow(2), c=2),),
        (lambda: given_attributes(SlottedBelow(1), c=3),),
    ),
    "slots and attributes": (
        (lambda: given_attributes(SlottedWithMore(1), c=2, d=3),) * 2,
        (lambda: given_attributes(SlottedWithMore(1), c=2, d=4),),
        (lambda: given_attributes(SlottedWithMore(0), c=2, d=3),),
    ),
    "a class that hides": ((lambda: Hidden(1),) * 2, (lambda: Hidden(2),)),
    "members that equal others": ((lambda: [{Hidden(1)}],) * 2, (lambda: [{Hidden(2)}],)),
    **{
        f"subclass of {kind.__mro__[1].__name__}": (
            (lambda k=kind, o=one: given_attributes(k(*o), note="a"),) * 2,
            (lambda k=kind, o=one: given_attributes(k(*o), note="b"),),
            (lambda k=kind, o=other: given_attributes(k(*o), note="a"),),
            (lambda k=kind, o=one: k.__mro__[1](*o),),
        )
        for kind, one, other in DERIVED
    },
    "shared objects": ((lambda: twice([1]), lambda: [[1], [1]]), (lambda: [[1], [2]],)),
    "a list in itself": (
        (lambda: nested(0, 1), lambda: nested(0, 2), lambda: nested(3, 5)),
        (lambda: chain(30),),
        (lambda: [nested(0, 1), 1],),
    ),
    "a ring": (
        (lambda: ring("a", "b"), lambda: ring("a", "b", "a", "b")),
        (lambda: ring("b", "a"),),
        (lambda: ring("a", "b", "a"),),
    ),
    "a long chain": ((lambda: chain(5000),) * 2, (lambda: chain(5001),)),
    "a graph": (
        (lambda: graph((0, 1), (1, 2), (2, 0)),) * 2,
        (lambda: graph((0, 1), (1, 2), (2, 1)),),
        (lambda: graph((0, 1), (1, 2)),),
    ),
}

REFUSED: dict[str, Make] = {
    "sqlite3.Connection": lambda: sqlite3.connect(":memory:"),
    "sqlite3.Cursor": lambda: sqlite3.connect(":memory:").cursor(),
    "builtins.generator": lambda: (each for each in [1]),
    "_thread.lock": threading.Lock,
    "_thread.RLock": threading.RLock,
    "_thread._local": threading.local,
    "_io.TextIOWrapper": lambda: open(os.devnull),  # noqa: PTH123, SIM115
    "_io.FileIO": lambda: io.FileIO(os.devnull),
    "socket.socket": socket.socket,
    "weakref.ReferenceType": lambda: weakref.ref(Plain),
    "builtins.memoryview": lambda: memoryview(b"ab"),
    "builtins.dict_keys": lambda: {}.keys(),
    "functools._lru_cache_wrapper": lambda: functools.lru_cache(adder),
    "_queue.SimpleQueue": queue.SimpleQueue,
    "random.SystemRandom": random.SystemRandom,
    "_contextvars.ContextVar": lambda: contextvars.ContextVar("a"),
    "builtins.property": property,
}


def digests_of(kind: str) -> list[set[str]]:
    """Return the digests of each group of a kind, as an attribute of a state.

    Tools of other tests may have set a precision for this process.
    """
    with decimal.localcontext(decimal.DefaultContext):
        return [{digest(Plain(held=make())) for make in group} for group in KINDS[kind]]


@pytest.mark.parametrize("kind", KINDS)
def test_equal_digests_if_and_only_if_no_read_tells_two_states_apart(kind: str) -> None:
    found = digests_of(kind)
    assert all(len(group) == 1 for group in found), "indistinguishable states differ"
    assert len(set.union(*found)) == len(found), "states that differ are equal"
    assert "" not in set.union(*found)


def test_there_are_more_than_sixty_kinds() -> None:
    assert len(KINDS) > 60


def test_digests_are_the_same_in_every_process() -> None:
    module = "tests.coevolve.environments.tools.test_digest"
    code = f"from {module} import *\nprint([sorted(map(sorted, digests_of(k))) for k in KINDS])"
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1


@pytest.mark.parametrize("kind", REFUSED)
def test_what_holds_more_than_can_be_read_is_refused_with_its_path_and_the_remedy(
    kind: str,
) -> None:
    state = Plain(rooms={"hall": [0, Plain(_held=REFUSED[kind]())]})
    with pytest.raises(SimulatorError) as refusal:
        digest(state)
    assert str(refusal.value) == (
        f"self.rooms['hall'][1]._held: the tools hold a {kind}, which cannot be compared; "
        "define state(), which returns what to compare"
    )


class TellsPickle(collections.deque[Any]):
    def __reduce__(self) -> Any:
        return (TellsPickle, ())


def test_a_class_that_changes_what_pickle_takes_of_a_type_in_c_is_refused() -> None:
    with pytest.raises(SimulatorError, match=r"self\.line: the tools hold a .*TellsPickle, which"):
        digest(Plain(line=TellsPickle([1])))


def same(one: Any, other: Any) -> bool:
    """Return whether two values show the same to every read, by the written rule."""
    if type(one) is not type(other):
        return False
    match one:
        case float():
            return repr(one) == repr(other)
        case list() | tuple() | collections.deque():
            return len(one) == len(other) and all(map(same, one, other))
        case dict():
            pairs = [list(each.items()) for each in (one, other)]
            return unordered(*pairs) if len(one) == len(other) else False
        case set() | frozenset():
            return len(one) == len(other) and unordered(list(one), list(other))
        case Plain():
            return same(vars(one), vars(other))
        case _:
            return one == other


def unordered(one: list[Any], other: list[Any]) -> bool:
    """Return whether each of ``one`` has a partner in ``other``, which is as long."""
    left = list(other)
    for each in one:
        partner = next((n for n, found in enumerate(left) if same(each, found)), None)
        if partner is None:
            return False
        del left[partner]
    return True


ATOMS = st.sampled_from(
    [None, True, 1, 1.0, 0, -0.0, 0.0, math.nan, "", "a", b"a", (), 2, "b", DAY]
)
STATES = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.lists(inner, max_size=3).map(collections.deque)
        | st.dictionaries(ATOMS, inner, max_size=3)
        | st.frozensets(ATOMS, max_size=3)
        | st.dictionaries(st.sampled_from("ab"), inner, max_size=2).map(lambda d: Plain(**d))
    ),
    max_leaves=5,
)


@settings(max_examples=400, deadline=None)
@given(STATES, STATES)
def test_generated_states_have_equal_digests_if_and_only_if_they_are_the_same(
    one: Any, other: Any
) -> None:
    assert (digest(one) == digest(other)) == same(one, other)
    assert digest([one, other, one]) == digest([one, other, one])
