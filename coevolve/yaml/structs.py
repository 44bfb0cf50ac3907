"""Checks a section of YAML against a struct; reports every fault with its remedy."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import NoneType
from typing import Any, cast, get_args, get_origin

import msgspec

from coevolve.base.foreign import plain as plain_text
from coevolve.base.foreign import shown
from coevolve.yaml.value_forms import alternatives, entry_of, is_struct, needed, plain
from coevolve.yaml.value_remedies import NAME_CHARS, found, meant, nearest, remedy

LARGEST = 2**63 - 1
"""Largest whole number that the journal and torch can store."""

MOST_FAULTS = 20
"""Maximum faults of one section that are looked for."""


def check_section(kind: type[msgspec.Struct], tree: Any, path: str, faults: list[str]) -> None:
    """Append to ``faults`` every reason why ``tree`` cannot be decoded as ``kind``."""
    _Checker(kind, path, faults).section(kind, tree, path)


def check_value(kind: Any, value: Any, path: str, faults: list[str]) -> None:
    """Append to ``faults`` every reason why ``value`` cannot be decoded as ``kind``, any type."""
    _Checker(msgspec.Struct, path, faults).value(kind, value, path)


@dataclass(frozen=True)
class _Checker:
    """Finds the faults of one tree of settings."""

    root: type[msgspec.Struct]
    base: str
    faults: list[str]

    @property
    def room(self) -> int:
        """How many more faults are looked for."""
        return max(0, MOST_FAULTS - len(self.faults))

    def section(self, kind: type[msgspec.Struct], tree: Any, path: str) -> None:
        if not isinstance(tree, Mapping):
            self.faults.append(_no_section(tree, path))
            return
        section = cast("Mapping[Any, Any]", tree)
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        for key in islice((key for key in section if key not in fields), self.room):
            hint = _unknown(key, section[key], tuple(fields)) or self._elsewhere(key)
            hint = hint or _near(key, fields)
            self.faults.append(f"{path}: unknown field {shown(f'{key}')}; {hint}")
        for name, field in fields.items():
            if name in section:
                self.value(field.type, section[name], f"{path}.{name}")
            elif field.required:
                self.faults.append(
                    f"{path}.{name}: is required and missing; give {needed(field.type)}"
                )

    def value(self, kind: Any, value: Any, path: str) -> None:
        if is_struct(kind):
            self.section(kind, value, path)
        elif members := alternatives(kind):
            if value is not None or NoneType not in get_args(kind):
                self._alternative(members, value, path)
        elif isinstance(value, list | tuple) and entry_of(kind) is not None:
            self._list(kind, cast("Sequence[Any]", value), path)
        elif get_origin(kind) is dict:
            self._map(kind, value, path)
        else:
            self._leaf(kind, value, path)

    def _list(self, kind: Any, value: Sequence[Any], path: str) -> None:
        before = len(self.faults)
        for index, entry in enumerate(value):
            if not self.room:
                return
            self.value(entry_of(kind), entry, f"{path}[{index}]")
        if len(self.faults) == before:
            self._leaf(kind, value, path)

    def _map(self, kind: Any, value: Any, path: str) -> None:
        if not isinstance(value, Mapping):
            self.faults.append(_no_section(value, path))
            return
        key_kind, value_kind = get_args(kind)
        for key, entry in cast("Mapping[Any, Any]", value).items():
            if not self.room:
                return
            self._leaf(key_kind, key, path)
            self.value(value_kind, entry, f"{path}.{plain_text(f'{key}')}")

    def _leaf(self, kind: Any, value: Any, path: str) -> None:
        fault = _fault(kind, value)
        if fault:
            self.faults.append(f"{path}: {fault}{remedy(kind, value, path)}")

    def _alternative(
        self, members: Mapping[str, type[msgspec.Struct]], value: Any, path: str
    ) -> None:
        if not isinstance(value, Mapping):
            kind = f"{value}".strip().lower()
            write = f"; write {{kind: {kind}}}"
            if kind not in members:
                write = f"; write {{kind: NAME}}, with one of {', '.join(members)}"
            self.faults.append(f"{path}: needs a section of settings, found {found(value)}{write}")
            return
        section = dict(cast("Mapping[Any, Any]", value))
        chosen = section.pop("kind", None)
        kind = next((each for tag, each in members.items() if tag == chosen), None)
        if kind is None:
            choice = f"needs one of {', '.join(members)}, found {found(chosen)}"
            hint = _fitting(members, section) or meant(chosen, tuple(members))
            self.faults.append(f"{path}.kind: {choice}{hint}")
            return
        self._strangers(members, section, chosen, path)
        self.section(kind, section, path)

    def _strangers(
        self,
        members: Mapping[str, type[msgspec.Struct]],
        section: dict[Any, Any],
        chosen: str,
        path: str,
    ) -> None:
        """Remove the settings of other kinds from a section, and report each as a fault."""
        strange = section.keys() - _names(members[chosen])
        for name in sorted(str(each) for each in strange):
            others = [tag for tag, each in members.items() if name in _names(each)]
            if others:
                del section[name]
                self.faults.append(
                    f"{path}.{name}: belongs to kind {' or '.join(others)}, found kind {chosen}; "
                    f"give {path.removeprefix('$.')}.kind={others[0]} or leave it out"
                )

    def _elsewhere(self, key: Any) -> str:
        """Suggest other sections that have a setting of this name; empty if there is none."""
        homes = [path for path, name in _places(self.root, self.base) if name == key]
        said = " or ".join(path.removeprefix("$.") for path in homes[:3])
        return f"did you mean {said}?" if said else ""


def _no_section(value: Any, path: str) -> str:
    if value is None:
        hint = "indent its settings below it, or leave it out"
    else:
        hint = "write its settings as `name: value`, indented below it and without dashes"
    return f"{path}: needs a section of settings, found {found(value)}; {hint}"


def _unknown(key: Any, value: Any, known: Sequence[str]) -> str:
    """Return a hint for a key with a typical YAML mistake; empty if it has none."""
    text = f"{key}"[:NAME_CHARS]
    if text.isdigit() and value is None:
        return "write a number of thousands without commas"
    if text != text.strip():
        return "a blank at its end is none that YAML skips: type plain spaces"
    written = re.match(r"(\w+)([:=.\[])(.*)", text, re.DOTALL)
    if written and written[1] in (*known, "kind"):
        return _punctuated(*written.groups())
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).replace("-", "_").lower()
    return f"did you mean {snake!r}?" if snake in known else ""


def _punctuated(name: str, mark: str, rest: str) -> str:
    """Return a hint for a key that continues with a bracket, a dot, a colon or an equals sign."""
    match mark:
        case "[":
            return f"give the whole list of {name}"
        case ".":
            return f"write it as a section: {name}: {{{plain_text(rest)}: ...}}"
        case _:
            return f"write it with colon and space: {name}: {plain_text(rest)}"


def _near(key: Any, known: Mapping[str, Any]) -> str:
    near = nearest(key, known)
    return f"did you mean {near!r}?" if near else f"known: {', '.join(known) or 'none'}"


def _fault(kind: Any, value: Any) -> str:
    """Return the fault of a value, as needed and found value; empty if it is valid."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"needs a finite number, found {value!r}"
    if isinstance(value, int) and abs(value) > LARGEST and plain(kind) is int:
        return f"needs a whole number below 2^63, found {found(value)}"
    try:
        msgspec.convert(value, type=kind)
    except msgspec.ValidationError:
        return f"needs {needed(kind)}, found {found(value)}"
    return ""


def _fitting(members: Mapping[str, type[msgspec.Struct]], section: Mapping[Any, Any]) -> str:
    """Return a hint with the only kind that has all settings of the section; empty if ambiguous."""
    fitting = [tag for tag, each in members.items() if section.keys() <= _names(each)]
    return f"; did you mean {fitting[0]!r}?" if section and len(fitting) == 1 else ""


def _names(kind: type[msgspec.Struct]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(kind)}


def _places(kind: type[msgspec.Struct], path: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the name of every setting below a section."""
    for field in msgspec.structs.fields(kind):
        inner = f"{path}.{field.name}"
        yield inner, field.name
        if is_struct(field.type):
            yield from _places(field.type, inner)
        for member in alternatives(field.type).values():
            yield from _places(member, inner)


def with_kinds(kind: type[msgspec.Struct], tree: Any) -> Any:
    """Return the settings of a ``kind``; sections without ``kind`` get their default's."""
    if not isinstance(tree, Mapping):
        return cast("object", tree)
    section = dict(cast("Mapping[Any, Any]", tree))
    for field in msgspec.structs.fields(kind):
        if isinstance(section.get(field.name), Mapping):
            section[field.name] = _with_kind(field, section[field.name])
    return section


def _with_kind(field: msgspec.structs.FieldInfo, section: Mapping[Any, Any]) -> Any:
    if is_struct(field.type):
        return with_kinds(field.type, section)
    members = alternatives(field.type)
    tag = section.get("kind")
    if "kind" not in section and isinstance(field.default, msgspec.Struct):
        tag = field.default.__struct_config__.tag
        section = {"kind": tag, **section}
    kind = next((each for name, each in members.items() if name == tag), None)
    return section if kind is None else with_kinds(kind, section)
