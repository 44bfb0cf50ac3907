"""Overrides of a run file's settings: ``learner.steps=20``."""

import re
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

from coevolve.base.foreign import plain, shown
from coevolve.yaml.structs import MOST_FAULTS
from coevolve.yaml.text import NotYamlError, parse_yaml
from protocols.errors import ConfigError

MAX_LINE_CHARS = 2_000
"""Maximum length of one fault."""

MAX_REPORT_CHARS = 6_000
"""Maximum length of all faults of a message; more are only counted."""

UNKNOWN = re.compile(r"unknown field '(?P<name>[^']*)'")


def apply(tree: dict[str, Any], override: str) -> None:
    """Set the value that ``override`` names in a run file's tree. Raises ConfigError."""
    key, equals, text = override.partition("=")
    names, said = _names(key), shown(override)
    if not equals:
        raise ConfigError(
            f"override {said}: has no '='; write {plain('.'.join(names))}=VALUE, for example "
            f"learner.steps=20{_second_file(override)}"
        )
    if not all(names):
        raise ConfigError(
            f"override {said}: needs the form key.path=value without blanks, for example "
            "learner.steps=20"
        )
    try:
        value = parse_yaml(text)
    except NotYamlError as error:
        raise ConfigError(
            f"override {said}: the value is not YAML: {error}; a value with "
            "blanks needs quotes for the shell around the whole override"
        ) from error
    for depth, name in enumerate(names[:-1], start=1):
        inner = tree.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"override {said}: {_no_section(inner, names[:depth])}")
        tree = cast("dict[str, Any]", inner)
    tree[names[-1]] = value


def _no_section(value: object, names: Sequence[str]) -> str:
    """Return why the setting ``names`` has no settings in it, and the remedy."""
    name, path = shown(names[-1]), plain(".".join(names))
    if isinstance(value, list):
        return f"{name} is a list; give the whole of it: {path}='[...]'"
    return f"{name} is a value, not a section; give {path}=value, or leave it out of the path"


def _second_file(override: str) -> str:
    return "; a command takes one run file" if override.endswith((".yaml", ".yml")) else ""


def fault_report(path: Path, faults: Sequence[str], overrides: Sequence[str]) -> str:
    """Return one message about all faults of a run file with overrides.

    A fault of a value that an override gave names the override and not the file.
    """
    keys = [".".join(_names(override.partition("=")[0])) for override in overrides]
    lines = [_blamed(fault, keys) or fault for fault in faults]
    of_file = [line for line in lines if line in faults]
    said = _bounded(lines)
    if not of_file and len(lines) == 1:
        return said[0]
    more = " or more" if len(lines) >= MOST_FAULTS else ""
    noun = "1 problem" if len(lines) == 1 else f"{len(lines)} problems{more}"
    where = f"{path}{' with overrides' if overrides else ''}: " if of_file else ""
    return f"{where}{noun}:\n" + "\n".join(f"  {line}" for line in said)


def _bounded(lines: Sequence[str]) -> list[str]:
    """Return the first lines, each cut if it is long, and how many are left out."""
    cut = [each if len(each) <= MAX_LINE_CHARS else f"{each[:MAX_LINE_CHARS]}..." for each in lines]
    ends = accumulate(map(len, cut))
    said = [each for each, end in zip(cut, ends, strict=True) if end <= MAX_REPORT_CHARS]
    left = len(cut) - len(said)
    return [*said, f"and {left} more"] if left else said


def _blamed(fault: str, keys: Sequence[str]) -> str:
    """Return the fault of an override's value in terms of the override; empty for other faults."""
    path, _, text = fault.partition(": ")
    unknown = UNKNOWN.match(text)
    if unknown:
        path, text = f"{path}.{unknown['name']}", f"unknown field{text[unknown.end() :]}"
    setting = path.removeprefix("$.")
    given = any(
        setting == key
        or setting.startswith((f"{key}.", f"{key}["))
        or (unknown and key.startswith(f"{setting}."))
        for key in keys
    )
    return f"override {setting}: {text}" if given else ""


def _names(key: str) -> list[str]:
    return [name.strip() for name in key.removeprefix("$.").split(".")]
