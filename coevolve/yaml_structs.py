"""YAML as people write it, and every fault of a section that is to become a struct."""

import difflib
import math
import re
from collections.abc import Mapping
from types import NoneType
from typing import Any, Literal, cast, get_args, get_origin

import msgspec
import yaml


class _Loader(yaml.SafeLoader):
    """YAML as people write it: `1e-3` is a number, `off` a word, and a key stands only once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the section. Raises ConstructorError where a key stands twice."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    fault = f"the key {key.value!r} stands twice in one section"
                    raise yaml.constructor.ConstructorError(None, None, fault, key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


BOOL = "tag:yaml.org,2002:bool"

# As in YAML 1.2: `off`, `no` and their like are words.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != BOOL]
    for first, found in _Loader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(BOOL, re.compile(r"^(?:true|false)$", re.IGNORECASE), list("tTfF"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)

NOT_YAML = (yaml.YAMLError, ValueError, RecursionError)
"""The last two come of impossible dates, endless numbers and bottomless nesting."""


def parse_yaml(text: str) -> Any:
    """Return what ``text`` says. Raises one of `NOT_YAML`."""
    return yaml.load(text, _Loader)  # noqa: S506, it is a safe loader


def check_section(kind: type[msgspec.Struct], tree: Any, path: str, faults: list[str]) -> None:
    """Append to ``faults`` all that keeps ``tree`` from being a ``kind``."""
    if not isinstance(tree, Mapping):
        found = "nothing" if tree is None else f"{tree!r}"
        faults.append(f"{path}: needs a section of settings, found {found}")
        return
    section = cast("Mapping[Any, Any]", tree)
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    for key in section:
        if key not in fields:
            near = difflib.get_close_matches(str(key), fields, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(fields)}"
            faults.append(f"{path}: unknown field {str(key)!r}; {hint}")
    for name, field in fields.items():
        if name in section:
            _check_value(field.type, section[name], f"{path}.{name}", faults)
        elif field.required:
            faults.append(f"{path}.{name}: is required and missing")


def _check_value(kind: Any, value: Any, path: str, faults: list[str]) -> None:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        check_section(kind, value, path, faults)
    elif alternatives := _alternatives(kind):
        if value is not None or NoneType not in get_args(kind):
            _check_alternative(alternatives, value, path, faults)
    elif isinstance(value, float) and not math.isfinite(value):
        faults.append(f"{path}: needs a finite number, found {value!r}")
    else:
        try:
            msgspec.convert(value, type=cast("Any", kind))
        except msgspec.ValidationError as error:
            choices = ", ".join(get_args(kind)) if get_origin(kind) is Literal else ""
            needed = f"needs one of {choices}" if choices else f"{error}"
            faults.append(f"{path}: {needed}, found {value!r}")


def _alternatives(kind: Any) -> Mapping[str, type[msgspec.Struct]]:
    """Return the structs that a section may be, by the value of its ``kind``; empty for others."""
    members = [member for member in get_args(kind) if member is not NoneType]
    if not members or not all(_is_struct(member) for member in members):
        return {}
    return {member.__struct_config__.tag: member for member in members}


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _check_alternative(
    alternatives: Mapping[str, type[msgspec.Struct]], value: Any, path: str, faults: list[str]
) -> None:
    if not isinstance(value, Mapping):
        faults.append(f"{path}: needs a section of settings, found {value!r}")
        return
    section = dict(cast("Mapping[Any, Any]", value))
    chosen = section.pop("kind", None)
    kind = next((each for tag, each in alternatives.items() if tag == chosen), None)
    if kind is None:
        found = "nothing" if chosen is None else repr(chosen)
        faults.append(f"{path}.kind: needs one of {', '.join(alternatives)}, found {found}")
        return
    check_section(kind, section, path, faults)
