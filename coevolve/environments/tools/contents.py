"""What an object holds, completely: its attributes, slots and content, or a refusal."""

import builtins
import copyreg
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from itertools import chain
from random import Random
from struct import calcsize
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any, NamedTuple, cast

_HEAP_TYPE = 1 << 9
"""The flag of a type that was made at run time (``Py_TPFLAGS_HEAPTYPE``)."""

_POINTER_BYTES = calcsize("P")

_PICKLED = 4
"""The last pickle protocol in which arrays are bytes."""

_PICKLES = ("__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs__", "__getnewargs_ex__")

_CODE = (
    "co_code",
    "co_consts",
    "co_names",
    "co_varnames",
    "co_freevars",
    "co_cellvars",
    "co_flags",
    "co_argcount",
    "co_posonlyargcount",
    "co_kwonlyargcount",
    "co_exceptiontable",
)
"""What decides how code runs; its place in a file does not."""


class RefusedError(Exception):
    """An object holds more than can be read."""


class Kind(Enum):
    """How the parts of an object are compared."""

    ORDERED = "ordered"
    SET = "set"
    MAPPING = "mapping"
    """Keys and values in turn; the order of the pairs does not count."""


Step = Callable[[Sequence[Any], int], str]
"""How a path shows the step to the part at this position."""


class Contents(NamedTuple):
    """What an object holds."""

    label: bytes
    kind: Kind
    parts: Sequence[Any]
    step: Step


class _Items(list[Any]):
    """A list of parts that a path does not show."""


def _text(value: str) -> bytes:
    return b"s" + value.encode("utf-8", "surrogatepass")


PLAIN: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda _: b"none",
    bool: lambda value: b"t" if value else b"f",
    int: lambda value: b"i" + hex(value).encode(),
    float: lambda value: b"d" + value.hex().encode(),
    str: _text,
    bytes: lambda value: b"y" + value,
}
"""Plain values as bytes, which begin with their type."""


def by_name(value: object) -> bytes | None:
    """Return a class, a module or a function that its module names; None for anything else."""
    if isinstance(value, type):
        return b"c" + _label(value)
    if isinstance(value, ModuleType):
        return b"m" + _text(value.__name__)
    return _named(value) if isinstance(value, FunctionType) else None


def contents(value: Any) -> Contents:
    """Return what an object holds that is no plain value. Raises RefusedError."""
    kind = cast("type[Any]", type(value))
    read = _READERS.get(kind)
    return read(value) if read else _object(value, kind)


def _unseen(_parts: Sequence[Any], _position: int) -> str:
    return ""


def _index(_parts: Sequence[Any], position: int) -> str:
    return f"[{position}]"


def _key(parts: Sequence[Any], position: int) -> str:
    key = parts[position - 1]
    shown = f"{key!r:.40}" if isinstance(key, str | int) else f"a {type(key).__name__}"
    return f"[{shown}]" if position % 2 else ""


def _attribute(parts: Sequence[Any], position: int) -> str:
    name = parts[position - 1]
    return f".{name}" if position % 2 and isinstance(name, str) else ""


def _sequence(value: Sequence[Any]) -> Contents:
    return Contents(type(value).__name__.encode(), Kind.ORDERED, value, _index)


def _members(value: Iterable[Any]) -> Contents:
    return Contents(type(value).__name__.encode(), Kind.SET, list(value), _unseen)


def _entries(value: Mapping[Any, Any]) -> Contents:
    parts = list(chain.from_iterable(value.items()))
    return Contents(type(value).__name__.encode(), Kind.MAPPING, parts, _key)


def _hidden(label: bytes, *parts: Any) -> Contents:
    return Contents(label, Kind.ORDERED, parts, _unseen)


def _function(value: FunctionType) -> Contents:
    given = value.__defaults__, value.__kwdefaults__, value.__closure__
    return _hidden(b"function", value.__module__, value.__code__, *given, value.__dict__)


def _code(value: CodeType) -> Contents:
    return _hidden(b"code", *(getattr(value, name) for name in _CODE))


def _cell(value: CellType) -> Contents:
    try:
        return _hidden(b"cell", value.cell_contents)
    except ValueError:  # it is empty
        return _hidden(b"cell")


_READERS: dict[type, Callable[[Any], Contents]] = {
    list: _sequence,
    tuple: _sequence,
    set: _members,
    frozenset: _members,
    dict: _entries,
    MappingProxyType: _entries,
    _Items: lambda value: _hidden(b"items", *value),
    FunctionType: _function,
    CodeType: _code,
    CellType: _cell,
}

_BUILT_IN: Any = builtins
"""The built-in types, without the types of what they hold."""

_CONTENT: dict[type, Callable[[Any], Any]] = {
    object: lambda _: None,
    list: lambda value: _Items(_BUILT_IN.list.__iter__(value)),
    tuple: lambda value: _Items(_BUILT_IN.tuple.__iter__(value)),
    set: lambda value: frozenset[Any](_BUILT_IN.set.__iter__(value)),
    frozenset: lambda value: frozenset[Any](_BUILT_IN.frozenset.__iter__(value)),
    dict: lambda value: dict[Any, Any](_BUILT_IN.dict.items(value)),
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
}
"""The content of an object whose class derives from one of these, without asking the class."""


def _object(value: Any, kind: type) -> Contents:
    """Return the attributes and the content of any other object."""
    if isinstance(value, Enum):
        return _hidden(_label(kind), value._value_)
    if kind is Random:
        return _hidden(_label(kind), repr(value.getstate()))
    parts = list(chain.from_iterable(_attributes(value, kind).items()))
    content = _content(value, kind)
    parts += () if content is None else (0, content)
    return Contents(_label(kind), Kind.MAPPING, parts, _attribute)


def _attributes(value: Any, kind: type) -> dict[str, Any]:
    """Return the attributes and the slots; a name that several bases have counts for each."""
    attributes: dict[str, Any] = {}
    if kind.__dictoffset__ and not (_told(kind) and _is_library(kind)):
        attributes |= value.__dict__
    for name, slot in _slots(kind):
        try:
            held = slot.__get__(value, kind)
        except AttributeError:  # it is empty
            continue
        owned = f"{slot.__objclass__.__qualname__}.{name}"
        attributes[owned if name in attributes else name] = held
    return attributes


@cache
def _slots(kind: type) -> tuple[tuple[str, MemberDescriptorType], ...]:
    """Return the slots of all classes that are written in Python and do not tell pickle."""
    written = kind.__mro__[: kind.__mro__.index(_told(kind) or _native(kind))]
    return tuple(
        (name, slot)
        for each in written
        for name, slot in vars(each).items()
        if isinstance(slot, MemberDescriptorType)
    )


def _content(value: Any, kind: type) -> Any:
    """Return what an object holds beside its attributes. Raises RefusedError."""
    native = _native(kind)
    if _told(kind) is None and native in _CONTENT:
        return _CONTENT[native](value)
    if _pickles_itself(kind):
        raise RefusedError
    return _reduced(value, kind)


def _reduced(value: Any, kind: type) -> Any:
    """Return the parts that pickle takes of an object."""
    reduce = copyreg.dispatch_table.get(kind)
    try:
        made = reduce(value) if reduce else value.__reduce_ex__(_PICKLED)
        if isinstance(made, str):
            return _global(value, made)
        maker, given, *rest = made
        state, items, entries = (*rest, None, None, None)[:3]
        listed = None if items is None else _Items(items)
        if entries is not None:
            entries = _Items(entries) if isinstance(value, OrderedDict) else dict(entries)
    except MemoryError:
        raise
    except Exception as error:
        raise RefusedError from error
    return _Items([maker, given, state, listed, entries])


def _global(value: Any, name: str) -> str:
    """Return the name of an object that its module or Python has by this name, or refuse it."""
    for module in (getattr(value, "__module__", None), "builtins"):
        found = sys.modules.get(module) if isinstance(module, str) else None
        if found is not None and _found(found, name) is value:
            return f"{module}.{name}"
    raise RefusedError


def _named(value: Any) -> bytes | None:
    """Return a function that its module has by its name; None if it has it not."""
    module = sys.modules.get(value.__module__)
    if module is None or _found(module, value.__qualname__) is not value:
        return None
    return b"n" + _text(f"{value.__module__}.{value.__qualname__}")


def _found(holder: object, path: str) -> object:
    for name in path.split("."):
        holder = getattr(holder, name, None)
    return holder


@cache
def _label(kind: type) -> bytes:
    """Return the name of a class, with its fields if its module has another class by that name."""
    fields = () if _named(kind) else getattr(kind, "__match_args__", ())
    return _text(f"{kind.__module__}.{kind.__qualname__}{fields or ''}")


@cache
def _native(kind: type) -> type:
    """Return the first base that holds more than attributes and slots; object if none does.

    It has to be written in C: a type from the start, one with a constructor of its own, or one
    whose objects are larger than their slots.
    """
    return next(
        each
        for each in kind.__mro__
        if not each.__flags__ & _HEAP_TYPE
        or (isinstance(each.__new__, BuiltinFunctionType) and each.__new__.__self__ is each)
        or _hides(each)
    )


def _hides(kind: type) -> bool:
    """Return whether an object has room for more than the base's, its slots, and its own dict."""
    base = cast("type", kind.__base__)
    slots = sum(isinstance(each, MemberDescriptorType) for each in vars(kind).values())
    slots += kind.__dictoffset__ > 0 >= base.__dictoffset__
    slots += kind.__weakrefoffset__ > 0 >= base.__weakrefoffset__
    return kind.__basicsize__ > base.__basicsize__ + slots * _POINTER_BYTES


@cache
def _told(kind: type) -> type | None:
    """Return the first class of Python's library that says, in Python, what pickle takes of it.

    Its own attributes, such as those of a path, may be caches that no read shows.
    """
    for each in kind.__mro__:
        own = [vars(each).get(name) for name in _PICKLES[:2]]
        if _is_library(each) and any(isinstance(method, FunctionType) for method in own):
            return each
    return None


@cache
def _pickles_itself(kind: type) -> bool:
    """Return whether a class outside Python's library changes what pickle takes, in Python."""
    return any(
        isinstance(vars(each).get(name), FunctionType)
        for each in kind.__mro__
        for name in _PICKLES
        if not _is_library(each)
    )


def _is_library(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in sys.stdlib_module_names
