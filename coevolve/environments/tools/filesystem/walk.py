"""Walks through a copy of the file system in this process, and returns the calls that were made.

A walk is a sequence of errands of one to three tools. Arguments are drawn from the current place
(`filesystem.slots`). Results of the errand's earlier calls are preferred: a folder just made, a
text just shown, the place of a file that was found. An errand is drawn again if a call fails, or
if it neither shows nor changes anything, up to `TRIES` times; the best draw is used.

This module knows the tools and which tools use each other's results; it knows no tasks and no
instructions. It does not move, copy or remove (``rm``) whole folders, because the simulator has
defects there (`tools.session`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from coevolve.environments.tools.filesystem import slots
from coevolve.environments.tools.filesystem.simulated import look_around
from coevolve.environments.tools.filesystem.slots import Fill, Place, Slots, pick
from coevolve.environments.tools.session import World
from coevolve.environments.tools.task import ToolTask

Chain = tuple[str, ...]
"""The tools of one errand, in order."""

TRIES = 24
"""Maximum draws of one errand; a draw takes less than a millisecond."""

PARENT = ".."

_ALONE_SHARE = 0.7
"""Share of errands that stay a single tool although a link contains it."""

_FOCUSED_SHARE = 0.2
"""Share of focused errands after the first of a walk; the first is always focused."""

_COPIED_CHARS = 60
"""Maximum characters of a text that a later call writes again."""


@dataclass(frozen=True)
class Slice:
    """The calls of one turn and their answers."""

    calls: tuple[str, ...]
    results: tuple[str, ...]

    def parts(self) -> "tuple[Slice, ...]":
        """Return a slice for every call; none if there is only one call."""
        pairs = zip(self.calls, self.results, strict=True)
        return tuple(Slice((call,), (result,)) for call, result in pairs if self.calls[1:])


Errand = tuple[Slice, ...]
"""The calls made; calls that use each other's results are in one slice."""


def _folder_or_up(place: Place, rng: np.random.Generator) -> Slots | None:
    folders = [*place.folders, *([PARENT] if place.has_parent else [])]
    return {"folder": pick(rng, folders)} if folders else None


def _target(place: Place, rng: np.random.Generator) -> Slots | None:
    """Choose a folder or a new name."""
    goes_below = bool(place.folders) and rng.random() < 0.5
    chosen = (slots.folder if goes_below else slots.new_file)(place, rng)
    return chosen and {"target": next(iter(chosen.values()))}


def _file_and_fewer_lines(place: Place, rng: np.random.Generator) -> Slots | None:
    """Choose a file and a number of lines below its length."""
    longer = [name for name, text in place.files.items() if "\n" in text]
    if not longer:
        return None
    name = pick(rng, longer)
    return {"file": name, "lines": int(rng.integers(1, len(place.files[name].splitlines())))}


def _sought(place: Place, rng: np.random.Generator) -> Slots | None:
    """Choose the name of a file here or one level below, or the beginning of the name."""
    names = [*place.files, *(name for folder in place.folders.values() for name in folder.files)]
    if not names:
        return None
    name = pick(rng, names)
    return {"sought": name if rng.random() < 0.5 else name.split(".")[0]}


_TOOLS: Mapping[str, tuple[str, Fill]] = {
    "cat": ("file_name={file!r}", slots.file),
    "cd": ("folder={folder!r}", _folder_or_up),
    "cp": ("source={file!r}, destination={target!r}", slots.both(slots.file, _target)),
    "diff": ("file_name1={file!r}, file_name2={other!r}", slots.two_files),
    "du": ("", slots.nothing),
    "echo": ("content={text!r}, file_name={file!r}", slots.both(slots.text, slots.file)),
    "find": ("path='.', name={sought!r}", _sought),
    "grep": ("file_name={file!r}, pattern={word!r}", slots.file_and_its_word),
    "ls": ("", slots.nothing),
    "mkdir": ("dir_name={folder!r}", slots.new_folder),
    "mv": ("source={file!r}, destination={target!r}", slots.both(slots.file, _target)),
    "pwd": ("", slots.nothing),
    "rm": ("file_name={file!r}", slots.file),
    "rmdir": ("dir_name={folder!r}", slots.empty_folder),
    "sort": ("file_name={file!r}", slots.file),
    "tail": ("file_name={file!r}, lines={lines!r}", _file_and_fewer_lines),
    "touch": ("file_name={new!r}", slots.new_file),
    "wc": ("file_name={file!r}, mode={mode!r}", slots.both(slots.file, slots.unit)),
}
"""Tool -> the template of its arguments, and the fill that chooses them."""

TOOLS = tuple(_TOOLS)

_ON_FILES = tuple(tool for tool, (template, _) in _TOOLS.items() if "{file" in template)

LINKS: tuple[tuple[Chain, ...], ...] = (
    (("touch", "echo"),),
    (("cat", "echo"),),
    (("mkdir", "mv"),),
    tuple(("find", "cd", tool) for tool in _ON_FILES),
    tuple(("cd", tool) for tool in (*_ON_FILES, "touch")),
)
"""Errands in which each call uses a result of an earlier one, grouped by the kind of result.

``mkdir`` also gives ``cd`` and ``cp`` a result, and ``cd`` gives one to tools that look around.
These are left out: the policy never learned instructions for them, and those it writes are wrong.
"""


def errands(focus: Sequence[Chain], count: int, rng: np.random.Generator) -> tuple[Chain, ...]:
    """Return ``count`` errands; the first contains one of ``focus``, the others rarely do."""
    return tuple(
        _around(pick(rng, focus), rng)
        if focus and (number == 0 or rng.random() < _FOCUSED_SHARE)
        else _around((pick(rng, TOOLS),), rng)
        for number in range(count)
    )


def walk(
    world: ToolTask, chains: Sequence[Chain], rng: np.random.Generator, most_calls: int
) -> tuple[Errand, ...]:
    """Return the slices of each errand, with at most ``most_calls`` calls; all calls succeeded.

    If an errand finds nothing to do in a place, the walk goes to another folder. Raises
    SimulatorError if the world does not load.
    """
    done: list[Errand] = []
    for chain in chains:
        before = [call for errand in done for each in errand for call in each.calls]
        if len(before) + len(chain) > most_calls:
            break
        errand = _best(world, before, chain, rng) or _best(world, before, ("cd",), rng)
        done += [errand] if errand else []
    return tuple(done)


def says_something(result: str) -> bool:
    """Return whether a tool's answer shows more than that the call was executed."""
    try:
        answer: object = json.loads(result)
    except (ValueError, RecursionError):
        return result not in ("", "None")
    if not isinstance(answer, dict):
        return bool(answer)
    return any(value or value == 0 for value in cast(dict[str, Any], answer).values())


def _around(core: Chain, rng: np.random.Generator) -> Chain:
    """Return ``core`` or a link that contains it; each kind of link is equally likely."""
    kinds = [
        [link for link in kind if core in {link[at : at + len(core)] for at in range(len(link))}]
        for kind in LINKS
    ]
    around = list(filter(None, kinds))
    alone = not around or rng.random() < _ALONE_SHARE
    return core if alone else pick(rng, pick(rng, around))


def _best(world: ToolTask, before: Sequence[str], chain: Chain, rng: np.random.Generator) -> Errand:
    """Return the draw with the most calls; of equal ones, the one with the fewest slices."""
    is_link = any(chain in kind for kind in LINKS)
    best: Errand = ()
    for _ in range(TRIES):
        draw = _Draw(world, before, rng)
        for tool in chain:
            draw.attempt(tool)
        best = max(best, tuple(draw.slices), key=_worth)
        if _worth(best)[0] == len(chain) and (len(best) == 1 or not is_link):
            break
    return best


def _worth(errand: Errand) -> tuple[int, int]:
    return sum(len(each.calls) for each in errand), -len(errand)


class _Draw:
    """One errand in a separate world."""

    def __init__(self, world: ToolTask, before: Sequence[str], rng: np.random.Generator) -> None:
        self._world = World(world)
        for call in before:
            self._world.call(call)
        self._rng = rng
        self._left: Slots = {}
        """Results of the errand's calls, by the slot that can use them."""

        self._has_moved = False
        """Whether the previous call entered a folder, so that the next call uses that."""

        self._tools: Chain = ()
        """The tools of the newest slice."""

        self.slices: list[Slice] = []

    def attempt(self, tool: str) -> None:
        """Make one call, if it is possible and shows or changes something."""
        template, fill = _TOOLS[tool]
        place = look_around(self._world)
        drawn = fill(place, self._rng)
        if drawn is None:
            return
        used = {slot: self._left[slot] for slot in drawn if self._can_use(slot, place)}
        chosen = drawn | used
        state, call = self._world.digest(), f"{tool}({template.format(**chosen)})"
        observed = self._world.call(call)
        if observed.failed:
            return
        if not says_something(observed.result) and self._world.digest() == state:
            return
        self._add(tool, Slice((call,), (observed.result,)), uses=bool(used) or self._has_moved)
        self._left |= _left_behind(tool, chosen, place, observed.result)
        self._has_moved = tool == "cd" and chosen["folder"] != PARENT

    def _can_use(self, slot: str, place: Place) -> bool:
        there = {"file": place.files, "folder": place.folders, "target": place.folders}
        return slot in self._left and (slot not in there or self._left[slot] in there[slot])

    def _add(self, tool: str, one: Slice, *, uses: bool) -> None:
        """Add a call to the newest slice if it continues a link, or else in a new slice."""
        together = (*self._tools, tool)
        if uses and any(link[: len(together)] == together for kind in LINKS for link in kind):
            before = self.slices.pop()
            one = Slice(before.calls + one.calls, before.results + one.results)
            self._tools = together
        else:
            self._tools = (tool,)
        self.slices.append(one)


def _left_behind(tool: str, chosen: Slots, place: Place, result: str) -> Slots:
    match tool:
        case "touch":
            return {"file": chosen["new"]}
        case "mkdir":
            return {"folder": chosen["folder"], "target": chosen["folder"]}
        case "cat":
            text = place.files[str(chosen["file"])]
            return {"text": text} if len(text) <= _COPIED_CHARS and "\n" not in text else {}
        case "find":
            steps = "/".join(json.loads(result)["matches"]).split("/")
            found_below = len(steps) == 3 and steps[-1] == chosen["sought"]
            return {"folder": steps[1], "file": steps[2]} if found_below else {}
        case _:
            return {}
