"""The requests of the quickstart's user: 25 skills on BFCL's file system, written as data.

A skill's paraphrases and calls are templates over the same slots, which `filesystem.slots` chooses.
Names are in single quotes, so that a solver copies them whole.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Literal

from coevolve.environments.tools.filesystem import slots
from coevolve.environments.tools.filesystem.slots import UNITS, Fill, Slots

Group = Literal["well", "rare", "scarce"]
"""How often the warm start demonstrates a skill: often, rarely, almost never."""


@dataclass(frozen=True)
class Skill:
    """One kind of request and its solution."""

    name: str
    group: Group
    paraphrases: tuple[str, str, str]
    calls: tuple[str, ...]
    fill: Fill

    after: str = ""
    """The skill that leads to a place where this one makes sense, if few places do."""

    @property
    def names(self) -> bool:
        """Whether a request names something, so that there are more requests than wordings."""
        return any(slot for _, slot, _, _ in Formatter().parse(self.paraphrases[0]))


_ALL = (
    Skill(
        "mkdir",
        "well",
        (
            "Create a folder '{folder}'.",
            "Make a new directory called '{folder}'.",
            "Add a folder named '{folder}' here.",
        ),
        ("mkdir(dir_name='{folder}')",),
        slots.new_folder,
    ),
    Skill(
        "touch",
        "well",
        (
            "Create an empty file '{new}'.",
            "Make a new file '{new}'.",
            "Add a blank file called '{new}'.",
        ),
        ("touch(file_name='{new}')",),
        slots.new_file,
    ),
    Skill(
        "rm",
        "well",
        ("Delete '{file}'.", "Get rid of the file '{file}'.", "Erase '{file}'."),
        ("rm(file_name='{file}')",),
        slots.file,
    ),
    Skill(
        "cd",
        "well",
        (
            "Go into '{folder}'.",
            "Change to the folder '{folder}'.",
            "Enter the directory '{folder}'.",
        ),
        ("cd(folder='{folder}')",),
        slots.folder,
    ),
    Skill(
        "cdup",
        "well",
        ("Go back up one level.", "Return to the parent folder.", "Leave this folder."),
        ("cd(folder='..')",),
        slots.inside,
        after="cd",
    ),
    Skill(
        "ls",
        "well",
        (
            "List what is here.",
            "Show the contents of this folder.",
            "What is in this directory?",
        ),
        ("ls()",),
        slots.nothing,
    ),
    Skill(
        "cat",
        "well",
        ("Show me '{file}'.", "Display the text of '{file}'.", "Read '{file}'."),
        ("cat(file_name='{file}')",),
        slots.file,
    ),
    Skill(
        "mvinto",
        "well",
        (
            "Move '{file}' into '{folder}'.",
            "Put '{file}' in the folder '{folder}'.",
            "Transfer '{file}' to the directory '{folder}'.",
        ),
        ("mv(source='{file}', destination='{folder}')",),
        slots.file_and_folder_without_it,
    ),
    Skill(
        "cpas",
        "well",
        (
            "Copy '{file}' to '{new}'.",
            "Duplicate '{file}' as '{new}'.",
            "Make a copy of '{file}' called '{new}'.",
        ),
        ("cp(source='{file}', destination='{new}')",),
        slots.both(slots.file, slots.new_file),
    ),
    Skill(
        "rename",
        "rare",
        (
            "Rename '{file}' to '{new}'.",
            "Change the name of '{file}' to '{new}'.",
            "Call '{file}' now '{new}'.",
        ),
        ("mv(source='{file}', destination='{new}')",),
        slots.both(slots.file, slots.new_file),
    ),
    Skill(
        "echo",
        "rare",
        (
            "Write '{text}' into '{file}'.",
            "Set the text of '{file}' to '{text}'.",
            "Save '{text}' in the file '{file}'.",
        ),
        ("echo(content='{text}', file_name='{file}')",),
        slots.both(slots.file, slots.text),
    ),
    Skill(
        "grep",
        "rare",
        (
            "Which lines of '{file}' have '{word}'?",
            "Search '{file}' for '{word}'.",
            "Find '{word}' inside '{file}'.",
        ),
        ("grep(file_name='{file}', pattern='{word}')",),
        slots.file_and_its_word,
    ),
    Skill(
        "sort",
        "rare",
        (
            "Sort the lines of '{file}'.",
            "Order '{file}' by line.",
            "Show '{file}' in sorted order.",
        ),
        ("sort(file_name='{file}')",),
        slots.file,
    ),
    Skill(
        "touchecho",
        "rare",
        (
            "Create '{new}' containing '{text}'.",
            "Make a new file '{new}' with the text '{text}'.",
            "Start a file '{new}' that says '{text}'.",
        ),
        ("touch(file_name='{new}')", "echo(content='{text}', file_name='{new}')"),
        slots.both(slots.new_file, slots.text),
    ),
    Skill(
        "cdtouch",
        "rare",
        (
            "In the folder '{folder}', create an empty file '{new}'.",
            "Go into '{folder}' and make a new file '{new}'.",
            "Inside '{folder}', add a blank file '{new}'.",
        ),
        ("cd(folder='{folder}')", "touch(file_name='{new}')"),
        slots.folder_and_new_file_in_it,
    ),
    Skill(
        "du",
        "rare",
        (
            "How much space is used here?",
            "Give the disk usage.",
            "What is the size of this folder?",
        ),
        ("du()",),
        slots.nothing,
    ),
    Skill(
        "findname",
        "rare",
        (
            "Where are items named '{stem}'?",
            "Look for '{stem}' everywhere.",
            "Locate anything called '{stem}'.",
        ),
        ("find(path='.', name='{stem}')",),
        slots.stem,
    ),
    Skill(
        "wc",
        "scarce",
        (
            "How many {unit} are in '{file}'?",
            "Count the {unit} of '{file}'.",
            "Give the number of {unit} in '{file}'.",
        ),
        ("wc(file_name='{file}', mode='{mode}')",),
        slots.both(slots.file, slots.unit),
    ),
    Skill(
        "tail",
        "scarce",
        (
            "Show the last {lines} lines of '{file}'.",
            "Print the final {lines} lines of '{file}'.",
            "What are the ending {lines} lines of '{file}'?",
        ),
        ("tail(file_name='{file}', lines={lines})",),
        slots.both(slots.file, slots.lines),
    ),
    Skill(
        "diff",
        "scarce",
        (
            "Compare '{file}' and '{other}'.",
            "How do '{file}' and '{other}' differ?",
            "Show the difference of '{file}' and '{other}'.",
        ),
        ("diff(file_name1='{file}', file_name2='{other}')",),
        slots.two_files,
    ),
    Skill(
        "rmdir",
        "scarce",
        (
            "Remove the empty folder '{folder}'.",
            "Drop the empty directory '{folder}'.",
            "Take away the vacant folder '{folder}'.",
        ),
        ("rmdir(dir_name='{folder}')",),
        slots.empty_folder,
    ),
    Skill(
        "mkmv",
        "scarce",
        (
            "Move '{file}' into a new folder '{folder}'.",
            "Make the directory '{folder}' and put '{file}' there.",
            "Store '{file}' in a fresh folder '{folder}'.",
        ),
        ("mkdir(dir_name='{folder}')", "mv(source='{file}', destination='{folder}')"),
        slots.both(slots.file, slots.new_folder),
    ),
    Skill(
        "cdcat",
        "scarce",
        (
            "Show me '{file}' from the folder '{folder}'.",
            "Go into '{folder}' and read '{file}'.",
            "Inside '{folder}', display '{file}'.",
        ),
        ("cd(folder='{folder}')", "cat(file_name='{file}')"),
        slots.file_in_a_folder,
    ),
    Skill(
        "findrm",  # only the answer of find says which folder
        "scarce",
        (
            "Find '{file}' in some folder and delete it.",
            "Locate '{file}' below and erase it.",
            "Somewhere below is '{file}'; get rid of it.",
        ),
        ("find(path='.', name='{file}')", "cd(folder='{folder}')", "rm(file_name='{file}')"),
        slots.file_found_once,
    ),
    Skill(
        "catecho",  # only the answer of cat says what to write
        "scarce",
        (
            "Overwrite '{other}' with what '{file}' says.",
            "Read '{file}' and write the same into '{other}'.",
            "Give '{other}' the text of '{file}'.",
        ),
        ("cat(file_name='{file}')", "echo(content='{text}', file_name='{other}')"),
        slots.text_file_and_other,
    ),
)

SKILLS: Mapping[str, Skill] = {skill.name: skill for skill in _ALL}


def slots_of(skill: Skill, calls: Sequence[str]) -> Slots | None:
    """Return the slots with which ``skill`` makes these calls; None if it never does."""
    named: set[str] = set()
    patterns = [_pattern(template, named) for template in skill.calls]
    match = re.fullmatch("\n".join(patterns), "\n".join(calls))
    if match is None:
        return None
    found: Slots = dict(match.groupdict())
    if "mode" not in found:
        return found
    unit = dict(UNITS).get(match["mode"])
    return None if unit is None else found | {"unit": unit}


def _pattern(template: str, named: set[str]) -> str:
    """Return the regular expression for a template's slots; a repeated slot must match itself."""
    parts: list[str] = []
    for literal, slot, _, _ in Formatter().parse(template):
        parts.append(re.escape(literal))
        if slot:
            parts.append(f"(?P={slot})" if slot in named else f"(?P<{slot}>[^'\n]*)")
            named.add(slot)
    return "".join(parts)
