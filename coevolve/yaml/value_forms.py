"""Describes types of settings in words, the same in errors and in explanations."""

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

WORDS: Mapping[Any, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    NoneType: "null",
}

PLURALS: Mapping[str, str] = {
    "text": "texts",
    "section": "sections",
    "whole number": "whole numbers",
}


def form(kind: Any) -> str:
    """Return the form of a setting of type ``kind``, for example ``whole number, 0 to 1024``."""
    bounds = bounds_of(kind)
    return ", ".join(each for each in (_noun(plain(kind)), bounds) if each)


def needed(kind: Any) -> str:
    """Return the form with its article, to follow the word *needs*."""
    said = form(kind)
    return f"a {said}" if said.startswith(("whole", "number", "list", "section", "map")) else said


def plain(kind: Any) -> Any:
    """Return the type without its annotations."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def is_struct(kind: Any) -> bool:
    """Return whether the type is a section that has only one kind."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def alternatives(kind: Any) -> Mapping[str, type[msgspec.Struct]]:
    """Return the structs that a section may be, by the value of its ``kind``; empty for others."""
    members = [member for member in get_args(kind) if member is not NoneType]
    if not _is_union(kind) or not all(is_struct(member) for member in members):
        return {}
    return {member.__struct_config__.tag: member for member in members}


def choices(kind: Any) -> tuple[Any, ...]:
    """Return the allowed values of a setting; empty if it has no list of choices."""
    return get_args(kind) if get_origin(kind) is Literal else ()


def entry_of(kind: Any) -> Any:
    """Return the type of a list's entries; None if ``kind`` is no list."""
    return get_args(plain(kind))[0] if get_origin(plain(kind)) in (tuple, list) else None


def bounds_of(kind: Any) -> str:
    """Return the range of a type in words, for example ``0 to 1``; empty if it has none."""
    metas = [each for each in get_args(kind)[1:] if isinstance(each, msgspec.Meta)]
    is_list = entry_of(kind) is not None
    said = (_of_list(meta) if is_list else _of_value(meta) for meta in metas)
    return ", ".join(each for each in said if each)


def _noun(kind: Any) -> str:
    entry = entry_of(kind)
    if entry is not None:
        return _list_noun(entry)
    if get_origin(kind) is dict:
        key, value = get_args(kind)
        return f"map from {form(key)} to {needed(value)}"
    if values := choices(kind):
        return "one of " + ", ".join(map(str, values))
    if is_struct(kind) or alternatives(kind):
        return "section" + (", or null" if NoneType in get_args(kind) else "")
    if _is_union(kind):
        return ", or ".join(form(each) for each in get_args(kind))
    return WORDS.get(kind, "value")


def _list_noun(entry: Any) -> str:
    if values := choices(entry):
        return "list out of " + ", ".join(map(str, values))
    said = form(entry)
    return f"list of {PLURALS.get(said, said)}"


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType)


def _of_list(meta: msgspec.Meta) -> str:
    least = meta.min_length
    return f"at least {least} {'entry' if least == 1 else 'entries'}" if least else ""


def _of_value(meta: msgspec.Meta) -> str:
    if meta.description:
        return meta.description
    if meta.min_length == 1:
        return "not empty"
    if meta.ge is not None and meta.le is not None:
        return f"{_shown(meta.ge)} to {_shown(meta.le)}"
    bounds = (
        ("at least", meta.ge),
        ("above", meta.gt),
        ("at most", meta.le),
        ("below", meta.lt),
        ("a multiple of", meta.multiple_of),
    )
    return ", ".join(f"{word} {_shown(number)}" for word, number in bounds if number is not None)


def _shown(number: float) -> str:
    return f"{int(number)}" if number == int(number) else f"{number:g}"
