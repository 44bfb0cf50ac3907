"""Describes every setting of a run file, from the structs that decode the file.

A section such as ``environment`` may be of several kinds, with different settings. The same path
can then name several settings, which differ in `Setting.of`.
"""

import ast
import difflib
import functools
import importlib
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, cast, get_args

import msgspec

from coevolve.environments.registry import config_types, environment_type
from coevolve.learning.objective_registry import built_in
from coevolve.yaml.value_forms import alternatives, entry_of, form, is_struct
from protocols.config import RunConfig
from protocols.errors import ConfigError

ENVIRONMENT = "environment"
OBJECTIVE = "learner.objective"


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of a section: its name and its settings."""

    name: str = ""
    """``kind grpo`` or ``environment USE``; empty for a section of one kind."""

    meaning: str
    settings: tuple["Setting", ...]


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A value of a run file, or a section of values."""

    path: str
    """``learner.steps``; an entry of a list is ``[]``, as in ``stages[].groups``."""

    meaning: str
    form: str
    """Type, range and choices, for example ``whole number, 0 to 1024``."""

    default: str | None = None
    """The default as YAML; None if the setting is required."""

    of: tuple[str, ...] = ()
    """The kinds of the sections around the setting, outermost first."""

    kinds: tuple[Kind, ...] = ()
    """The kinds that a section may be of; empty for a value."""

    def all(self) -> "Iterator[Setting]":
        """Yield the setting itself and all settings below it."""
        yield self
        for kind in self.kinds:
            for setting in kind.settings:
                yield from setting.all()


@functools.cache
def reference() -> Kind:
    """Return all settings, including those of built-in environments and of plain classes."""
    return Kind(meaning=summary(RunConfig), settings=_settings(RunConfig, "", ()))


def everything() -> Iterator[Setting]:
    """Yield every setting and section, depth first, in the order of the structs."""
    for setting in reference().settings:
        yield from setting.all()


def find(name: str, environment: str = "") -> tuple[Setting, ...]:
    """Return all settings that ``name`` may mean, in one environment if one is given.

    ``name`` may be written as in an error (``$.learner.steps``) or an override
    (``learner.steps=3``); entries of a list need no ``[]``.

    Raises:
        ConfigError: There is no such setting, or no such environment.
    """
    path = re.sub(r"\[\d*\]|\.\d+(?=\.|$)", "", name.strip().partition("=")[0].removeprefix("$."))
    known = tuple(_within(environment) if environment else everything())
    found = tuple(each for each in known if plain_path(each.path) == path)
    if not found:
        there = f" in environment {environment}" if environment else ""
        raise ConfigError(f"{name!r}: there is no such setting{there}{_hint(path, known)}")
    return found


def plain_path(path: str) -> str:
    """Return a setting's path as users write it."""
    return path.replace("[]", "")


def environment_kind(use: str) -> Kind:
    """Return the settings of a built-in or other environment. Raises ConfigError."""
    types = config_types()
    kind = types[use] if use in types else environment_type(use).config_type
    return _environment(use, kind)


def _environment(use: str, kind: type[msgspec.Struct]) -> Kind:
    of = f"{ENVIRONMENT} {use}"
    settings = _settings(kind, f"{ENVIRONMENT}.", (of,))
    return Kind(name=of, meaning=summary(kind), settings=settings)


def _within(environment: str) -> Iterator[Setting]:
    """Yield all settings; of environments, only those of ``environment``."""
    kind = environment_kind(environment)
    for setting in reference().settings:
        if setting.path == ENVIRONMENT:
            chosen = tuple(each for each in setting.kinds if not each.name)
            yield from msgspec.structs.replace(setting, kinds=(*chosen, kind)).all()
        else:
            yield from setting.all()


def _hint(path: str, known: Sequence[Setting]) -> str:
    """Return a suggestion: the same name in another section, its initials, or a similar name."""
    paths = list(dict.fromkeys(plain_path(each.path) for each in known))
    last = _last(path)
    parent = path.removesuffix(last)
    near = [each for each in paths if "".join(word[:1] for word in _last(each).split("_")) == last]
    near = [each for each in near if each.startswith(parent)] or near
    near = near or difflib.get_close_matches(path, paths, 3, 0.8)
    near = near or [each for each in paths if _last(each) == last]
    near = near or [
        each for each in paths if difflib.get_close_matches(last, [_last(each)], 1, 0.7)
    ]
    near = near or [each for each in paths if last in _last(each).split("_")]
    if near:
        return f"; did you mean {' or '.join(near[:4])}?"
    return "; `coevolve config explain` lists the sections"


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _settings(kind: type[msgspec.Struct], prefix: str, of: tuple[str, ...]) -> tuple[Setting, ...]:
    return tuple(_setting(kind, field, prefix, of) for field in msgspec.structs.fields(kind))


def _setting(
    owner: type[msgspec.Struct], field: msgspec.structs.FieldInfo, prefix: str, of: tuple[str, ...]
) -> Setting:
    path = f"{prefix}{field.name}"
    kinds = OPEN[path]() if path in OPEN else _kinds(field.type, path, of)
    said = meaning(owner, field.name)
    if not said and len(kinds) == 1:
        said = kinds[0].meaning
    return Setting(
        path=path,
        meaning=said,
        form="section" if path in OPEN else form(field.type),
        default=_default(field, kinds),
        of=of,
        kinds=kinds,
    )


def _environments() -> tuple[Kind, ...]:
    """Return the setting that all environments share, followed by those of each."""
    chooser = Setting(
        path=f"{ENVIRONMENT}.use",
        meaning="The environment: a built-in one, one that an installed package offers, or "
        "`package.module:Class` of your own.",
        form="text",
        default=next(iter(config_types())),
    )
    shared = Kind(meaning="", settings=(chooser,))
    return (shared, *(_environment(use, kind) for use, kind in config_types().items()))


def _objectives() -> tuple[Kind, ...]:
    return tuple(_of_kind(tag, each, OBJECTIVE, ()) for tag, each in built_in().items())


OPEN: Mapping[str, Callable[[], tuple[Kind, ...]]] = {
    ENVIRONMENT: _environments,
    OBJECTIVE: _objectives,
}
"""Sections whose kinds are found by name, and not in the type of the setting."""


def _kinds(kind: Any, path: str, of: tuple[str, ...]) -> tuple[Kind, ...]:
    entry = entry_of(kind)
    if entry is not None:
        return _kinds(entry, f"{path}[]", of)
    if is_struct(kind):
        return (Kind(meaning=summary(kind), settings=_settings(kind, f"{path}.", of)),)
    return tuple(_of_kind(tag, each, path, of) for tag, each in alternatives(kind).items())


def _of_kind(tag: str, kind: type[msgspec.Struct], path: str, of: tuple[str, ...]) -> Kind:
    name = f"kind {tag}"
    settings = _settings(kind, f"{path}.", (*of, name))
    return Kind(name=name, meaning=summary(kind), settings=settings)


def _default(field: msgspec.structs.FieldInfo, kinds: Sequence[Kind]) -> str | None:
    """Return the default as YAML; for a section, its kind, or nothing if it has only one."""
    if field.required:
        return None
    if isinstance(field.default, msgspec.Struct):
        tag = field.default.__struct_config__.tag
        return f"{{kind: {tag}}}" if tag else ""
    default: object = field.default
    if default is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    names_kind = isinstance(default, dict) and "kind" in cast("dict[str, Any]", default)
    if kinds and NoneType not in get_args(field.type) and not names_kind:
        return ""
    return as_yaml(default)


def as_yaml(value: Any) -> str:
    """Return a value as one line of YAML."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}" if float(f"{value:g}") == value else repr(value)
        case "":
            return '""'
        case tuple() | list():
            entries = cast("Sequence[Any]", value)
            return f"[{', '.join(map(as_yaml, entries))}]"
        case dict():
            items = cast("Mapping[str, Any]", value).items()
            return "{" + ", ".join(f"{key}: {as_yaml(each)}" for key, each in items) + "}"
        case _:
            return str(value)


def summary(kind: type) -> str:
    """Return the docstring of a class, with one line per paragraph."""
    return paragraphs(kind.__doc__ or "")


def meaning(kind: type[msgspec.Struct], field: str) -> str:
    """Return the docstring of a struct's field, followed by that of its type alias.

    A field that a subclass declares again without a docstring keeps the base's. Empty if there is
    no docstring.
    """
    for owner in kind.__mro__:
        declared = _fields(owner).get(field) if issubclass(owner, msgspec.Struct) else None
        said = declared and (declared.text, _alias(owner.__module__, declared.alias))
        if said and any(said):
            return "\n\n".join(each for each in said if each)
    return ""


def paragraphs(text: str) -> str:
    """Return a docstring with each paragraph on one line, separated by blank lines."""
    parts = inspect.cleandoc(text).replace("``", "`").split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in parts if part.strip())


@dataclass(frozen=True)
class _Declared:
    """A field in the source: its docstring, and its type's name if the type is a plain name."""

    text: str
    alias: str


@functools.cache
def _fields(kind: type) -> Mapping[str, _Declared]:
    module = sys.modules[kind.__module__]
    if not getattr(module, "__file__", None):
        return {}
    tree = _tree(kind.__module__)
    classes = (each for each in tree.body if isinstance(each, ast.ClassDef))
    found = next((each for each in classes if each.name == kind.__name__), None)
    return {
        node.target.id: _Declared(
            text, node.annotation.id if isinstance(node.annotation, ast.Name) else ""
        )
        for node, text in _documented(found.body if found else ())
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


@functools.cache
def _tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[module]))


def _documented(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Yield each statement with the docstring under it, or an empty string."""
    for node, after in itertools.zip_longest(body, body[1:]):
        match after:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node, paragraphs(text)
            case _:
                yield node, ""


def _alias(module: str, name: str) -> str:
    """Return the docstring of ``name = ...`` in a module, or in the module that defines it."""
    if not name:
        return ""
    importlib.import_module(module)
    for node, text in _documented(_tree(module).body):
        match node:
            case ast.Assign(targets=[ast.Name(id=found)]) if found == name:
                return text
            case ast.ImportFrom(module=str(source), names=names):
                if any(each.name == name for each in names):
                    return _alias(source, name)
            case _:
                pass
    return ""
