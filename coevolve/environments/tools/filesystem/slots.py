"""The slots of the task grammar's requests, and their random choice.

A ``Fill`` chooses the slots of one request for the user's current place, or returns None if the
request would make no sense there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

Slots = dict[str, str | int]

T = TypeVar("T")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FOLDERS = _words(
    "docs archive backup photos music reports drafts logs temp work old shared bin media papers "
    "lab team home plans cache"
)
STEMS = _words(
    "notes todo budget report summary draft plan memo list data index readme letter agenda invoice "
    "recipe story log config results"
)
FILES = tuple(stem + suffix for stem in STEMS for suffix in (".txt", ".md", ".csv"))
WORDS = _words(
    "red blue green apple river stone cloud tiger paper music winter summer north south alpha beta "
    "gamma delta market garden"
)
UNITS = (("l", "lines"), ("w", "words"), ("c", "characters"))


@dataclass(frozen=True)
class Place:
    """The folder in which the user is, with everything below it."""

    files: Mapping[str, str]
    """Name -> content."""

    folders: Mapping[str, "Place"]
    has_parent: bool


Fill = Callable[[Place, np.random.Generator], Slots | None]


def pick(rng: np.random.Generator, options: Sequence[T]) -> T:
    """Return one of ``options``, each with equal probability."""
    return options[int(rng.integers(len(options)))]


def phrase(rng: np.random.Generator, most: int = 3) -> str:
    """Return one to ``most`` words."""
    return " ".join(pick(rng, WORDS) for _ in range(int(rng.integers(1, most + 1))))


def _unused(place: Place, names: Sequence[str]) -> list[str]:
    return [name for name in names if name not in place.files and name not in place.folders]


def nothing(place: Place, rng: np.random.Generator) -> Slots | None:
    """Choose no slot."""
    return {}


def inside(place: Place, rng: np.random.Generator) -> Slots | None:
    """Choose no slot; None in the first folder."""
    return {} if place.has_parent else None


def stem(place: Place, rng: np.random.Generator) -> Slots | None:
    """Choose a name without its extension."""
    return {"stem": pick(rng, STEMS)}


def new_folder(place: Place, rng: np.random.Generator) -> Slots | None:
    """Choose a folder name that is free."""
    unused = _unused(place, FOLDERS)
    return {"folder": pick(rng, unused)} if unused else None


def new_file(place: Place, rng: np.random.Generator) -> Slots | None:
    """Choose a file name that is free."""
    unused = _unused(place, FILES)
    return {"new": pick(rng, unused)} if unused else None


def file(place: Place, rng: np.random.Generator) -> Slots | None:
    """Choose a file of this folder."""
    return {"file": pick(rng, list(place.files))} if place.files else None


def folder(place: Place, rng: np.random.Generator) -> Slots | None:
    """Choose a folder of this folder."""
    return {"folder": pick(rng, list(place.folders))} if place.folders else None


def empty_folder(place: Place, rng: np.random.Generator) -> Slots | None:
    """Choose an empty folder."""
    empty = [name for name, below in place.folders.items() if not (below.files or below.folders)]
    return {"folder": pick(rng, empty)} if empty else None


def text(place: Place, rng: np.random.Generator) -> Slots | None:
    """Choose a few words."""
    return {"text": phrase(rng)}


def lines(place: Place, rng: np.random.Generator) -> Slots | None:
    """Choose a number from 1 to 3."""
    return {"lines": int(rng.integers(1, 4))}


def unit(place: Place, rng: np.random.Generator) -> Slots | None:
    """Choose a unit to count."""
    mode, unit = pick(rng, UNITS)
    return {"mode": mode, "unit": unit}


def both(*fills: Fill) -> Fill:
    """Return the fill that chooses the slots of each of ``fills``."""

    def fill(place: Place, rng: np.random.Generator) -> Slots | None:
        slots: Slots = {}
        for part in fills:
            chosen = part(place, rng)
            if chosen is None:
                return None
            slots |= chosen
        return slots

    return fill


def file_and_folder_without_it(place: Place, rng: np.random.Generator) -> Slots | None:
    """Choose a file, and a folder in which its name is free."""
    slots = both(file, folder)(place, rng)
    if slots is None or slots["file"] in place.folders[str(slots["folder"])].files:
        return None
    return slots


def file_and_its_word(place: Place, rng: np.random.Generator) -> Slots | None:
    """Choose a file and a word, usually one that it contains."""
    slots = file(place, rng)
    if slots is None:
        return None
    words = place.files[str(slots["file"])].split()
    return slots | {"word": pick(rng, words if words and rng.random() < 0.8 else WORDS)}


def two_files(place: Place, rng: np.random.Generator) -> Slots | None:
    """Choose two different files."""
    if len(place.files) < 2:
        return None
    first, second = rng.permutation(list(place.files))[:2]
    return {"file": str(first), "other": str(second)}


def folder_and_new_file_in_it(place: Place, rng: np.random.Generator) -> Slots | None:
    """Choose a folder and a name that is free in it."""
    slots = folder(place, rng)
    if slots is None:
        return None
    created = new_file(place.folders[str(slots["folder"])], rng)
    return None if created is None else slots | created


def file_in_a_folder(place: Place, rng: np.random.Generator) -> Slots | None:
    """Choose a file one level below, with its folder."""
    inside = [(name, file) for name, below in place.folders.items() for file in below.files]
    if not inside:
        return None
    folder, file = pick(rng, inside)
    return {"folder": folder, "file": file}


def _names(place: Place) -> list[str]:
    below = [name for folder in place.folders.values() for name in _names(folder)]
    return [*place.files, *place.folders, *below]


def file_found_once(place: Place, rng: np.random.Generator) -> Slots | None:
    """Choose a file one level below whose name occurs nowhere else."""
    slots = file_in_a_folder(place, rng)
    if slots is None or sum(str(slots["file"]) in name for name in _names(place)) != 1:
        return None
    return slots


def text_file_and_other(place: Place, rng: np.random.Generator) -> Slots | None:
    """Choose a file with a single line, and another file."""
    lines = [name for name, text in place.files.items() if text and "\n" not in text]
    if not lines or len(place.files) < 2:
        return None
    source = pick(rng, lines)
    other = pick(rng, [name for name in place.files if name != source])
    return {"file": source, "other": other, "text": place.files[source]}
