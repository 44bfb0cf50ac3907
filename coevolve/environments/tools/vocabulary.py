"""The names that tasks use, and other names that can take their place.

A new name is of the same form as the old one: a file keeps its ending and gets another file's stem,
words become as many other words, and what else a parameter takes, such as 'Ms. Ito', is replaced by
what it takes in other tasks.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath

import numpy as np

from coevolve.environments.tools.gates.reading import leaves, read_call, tools_of
from coevolve.environments.tools.gates.worlds import names as world_names
from coevolve.environments.tools.task import ToolTask
from coevolve.environments.tools.toolset import ToolDocument

LEAST_CHARS = 2
"""Shorter texts are modes and signs rather than names."""

MOST_WORDS = 6
"""Longer texts are prose; other words would make nonsense of it."""

FEW = 8
"""A parameter with fewer names than this also takes stems and words of the same kind."""

_WORD = re.compile(r"[^\W\d_]{2,}")
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}")


Named = Callable[[ToolTask], Mapping[str, str]]
"""Returns the names that an instruction and a reference share, with their parameters."""


class Vocabulary:
    """The names of some tasks, which should be training tasks."""

    def __init__(self, bodies: Iterable[ToolTask], of: Named | None = None) -> None:
        """``of`` finds the names of a task, by default those in calls."""
        names_of = of or named
        stems, words = dict[str, None](), dict[str, None]()
        taken: dict[str, dict[str, None]] = {}
        for body in bodies:
            for name, parameter in names_of(body).items():
                taken.setdefault(parameter, {})[name] = None
            for text in (*names_of(body), *world_names(body)):
                if ending := ending_of(text):
                    stems[text.removesuffix(ending)] = None
                elif _WORD.fullmatch(text):
                    words[text] = None
        self._stems, self._words = tuple(stems), tuple(words)
        self._known = set(stems), set(words)
        self._taken = {parameter: tuple(names) for parameter, names in taken.items()}

    def another(self, name: str, parameter: str, text: str, rng: np.random.Generator) -> str:
        """Return a name that can take the place of ``name``; empty if there is none.

        No new stem or word is part of ``text``, the whole task.
        """
        if ending := ending_of(name):
            stem = _drawn(self._stems, text, rng, ending)
            return stem + ending if stem else ""
        parts = name.split(" ")
        if len(parts) > MOST_WORDS:
            return ""
        names = self._taken.get(parameter, ())
        if len(parts) > 1:
            whole = "" if all(map(_WORD.fullmatch, parts)) else _drawn(names, text, rng)
            return whole or self._phrase(parts, text, rng)
        stems, words = self._known
        if len(names) < FEW and (name in stems or name in words):
            names = self._stems if name in stems else self._words
        return _drawn([each for each in names if not ending_of(each)], text, rng)

    def _phrase(self, parts: Sequence[str], text: str, rng: np.random.Generator) -> str:
        """Return as many other words; what is no word stays."""
        chosen = [
            _drawn(self._words, text, rng) or part if _WORD.fullmatch(part) else part
            for part in parts
        ]
        return " ".join(chosen) if chosen != parts else ""


def _drawn(names: Sequence[str], text: str, rng: np.random.Generator, ending: str = "") -> str:
    """Return one of the names that, with the ending, is not in ``text``; or nothing."""
    free = [each for each in names if each + ending not in text]
    return free[int(rng.integers(len(free)))] if free else ""


def named(body: ToolTask) -> dict[str, str]:
    """Return the names that both an instruction and a call name, with their first parameters.

    What a parameter's documentation mentions is one of its fixed values, and no name. Calls that
    cannot be read name nothing.
    """
    said = "\n".join(turn.instruction for turn in body.turns)
    tools = tools_of(body.classes)
    found: dict[str, str] = {}
    for text in (text for turn in body.turns for text in turn.reference):
        try:
            call = read_call(text, tools)
        except ValueError:
            continue
        for argument in call.arguments:
            fixed = _documented(tools.get(call.tool), argument.name)
            texts = (each for each in leaves(argument.value) if isinstance(each, str))
            for name in filter(_is_name, texts):
                if mentions(said, name) and not mentions(fixed, name):
                    found.setdefault(name, argument.name)
    return found


def _documented(tool: ToolDocument | None, parameter: str) -> str:
    """Return the documentation of a parameter as text."""
    return str(tool.parameters["properties"].get(parameter, "")) if tool else ""


def ending_of(name: str) -> str:
    """Return the ending of a file's name, with its dot; empty for other names."""
    ending = PurePosixPath(name).suffix
    return ending if _ENDING.fullmatch(ending) and " " not in ending else ""


def pattern_of(names: Iterable[str]) -> re.Pattern[str]:
    """Return what finds each name that is no part of a longer word, longer names first."""
    longest = sorted(names, key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest)) or '(?!)'})(?!\w)")


def mentions(text: str, name: str) -> bool:
    """Return whether a text has the name as a whole word."""
    return pattern_of((name,)).search(text) is not None


def _is_name(value: str) -> bool:
    return len(value) >= LEAST_CHARS and any(character.isalpha() for character in value)
