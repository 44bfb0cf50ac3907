"""What to write for the parameters of a tool, in a place and after the calls before.

What the errand's own calls left behind goes first: a folder just made, the place of a file that was
found, a text that was shown. Else a value is drawn from what was seen, or made up.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from coevolve.environments.tools.filesystem.manual import Parameter, Tool
from coevolve.environments.tools.filesystem.slots import FILES, FOLDERS, STEMS, phrase, pick
from coevolve.environments.tools.filesystem.steps import Argument, Step
from coevolve.environments.tools.filesystem.surroundings import (
    PARENT,
    Surroundings,
    looks_like_a_file,
    texts,
)

_SHORT_CHARS = 60
"""Longest text that is copied from an answer."""

_FOLDER_SHARE = 0.5
"""Of targets that are a folder, where one is here."""


_NUMBERS = (1, 1, 2, 2, 3)
"""Small ones more often: of few things there are as many."""


class NothingFitsError(Exception):
    """No value is known that a parameter could take here."""


class Arguments:
    """Draws arguments for the calls of one walk."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        rng: np.random.Generator,
        around: Surroundings,
        steps: Sequence[Step],
    ) -> None:
        """Draw from ``around`` and ``steps``, which the walk goes on to change."""
        self._tools = tools
        self._rng = rng
        self._around = around
        self._steps = steps

    def draw(self, tool: Tool, ahead: Sequence[Tool], begin: int) -> tuple[Argument, ...]:
        """Return arguments that serve what comes ``ahead`` in the errand.

        ``begin`` is the errand's first step. Raises NothingFitsError.
        """
        chosen: list[Argument] = []
        for parameter in tool.parameters:
            if parameter.want != "flag":
                chosen.append(self._argument(tool, parameter, chosen, ahead, begin))
        return tuple(chosen)

    def _argument(
        self,
        tool: Tool,
        parameter: Parameter,
        chosen: Sequence[Argument],
        ahead: Sequence[Tool],
        begin: int,
    ) -> Argument:
        taken = {each.value for each in chosen} | self._sources(chosen)
        linked = self._linked(tool, parameter, taken, begin)
        if linked is not None:
            return linked
        options = self._seen(tool, parameter, ahead)
        if options is None:
            options = self._invented(parameter)
        fitting = [option for option in options if option not in taken]
        if not fitting:
            raise NothingFitsError
        return Argument(parameter.name, pick(self._rng, fitting))

    def _sources(self, chosen: Sequence[Argument]) -> set[str | int]:
        """Return what the chosen values were read from: nothing is copied onto itself."""
        return {
            source.value
            for each in chosen
            if each.answered_by is not None
            for source in self._steps[each.answered_by].arguments
        }

    def _seen(
        self, tool: Tool, parameter: Parameter, ahead: Sequence[Tool]
    ) -> Sequence[str] | None:
        """Return what the surroundings have for a parameter; None where it is to be made up."""
        around = self._around
        match parameter.want:
            case "file":
                return around.files()
            case "folder":
                return self._folders(tool, ahead)
            case "target" if around.folders() and self._rng.random() < _FOLDER_SHARE:
                return around.folders()
            case "sought":
                return self._sought(ahead)
            case _:
                return None

    def _invented(self, parameter: Parameter) -> Sequence[str | int]:
        match parameter.want:
            case "new_file" | "target":
                return FILES
            case "new_folder":
                return FOLDERS
            case "text":
                return (phrase(self._rng, most=2),)
            case "word":
                return (phrase(self._rng, most=1),)
            case "number":
                return _NUMBERS
            case _:
                return parameter.options

    def _linked(
        self, tool: Tool, parameter: Parameter, taken: set[str | int], begin: int
    ) -> Argument | None:
        """Return a value that the errand's own calls left behind, newest first."""
        for number in range(len(self._steps) - 1, begin - 1, -1):
            step, before = self._steps[number], self._tools[self._steps[number].tool]
            if step.observed.failed:
                continue
            left = self._left_behind(step, before, parameter, tool)
            if left is not None and left.value not in taken:
                answered = number if left.answered_by is not None else None
                return Argument(parameter.name, left.value, answered)
        return None

    def _left_behind(
        self, step: Step, before: Tool, parameter: Parameter, tool: Tool
    ) -> Argument | None:
        first = step.arguments[0] if step.arguments else None
        answers = texts(step.observed.result)
        match parameter.want:
            case "file" if before.makes == "file" and first:
                return first
            case "folder" | "target" if before.makes == "folder" and first:
                return first
            case "folder" if before.locates and tool.moves:
                inside = [path.split("/")[1] for path in answers if path.count("/") > 1]
                return Argument("", inside[0], 0) if inside else None
            case "file" if before.locates:
                sought = str(step.arguments[-1].value)
                return step.arguments[-1] if sought in self._around.files() else None
            case "text" if before.shows:
                short = [text for text in answers if can_be_copied(text)]
                return Argument("", short[0], 0) if short else None
            case _:
                return None

    def _folders(self, tool: Tool, ahead: Sequence[Tool]) -> list[str]:
        """Return the folders that serve what comes next; a way back up where there is no other."""
        around = self._around
        folders = around.folders()
        if not tool.moves:
            return folders
        if ahead and ahead[0].wants("file"):
            needed = sum(parameter.want == "file" for parameter in ahead[0].parameters)
            return [folder for folder in folders if len(around.files_in(folder)) >= needed]
        if ahead and ahead[0].wants("folder"):
            return [folder for folder in folders if around.folders_in(folder)]
        up = [PARENT] if around.here and not ahead else []
        return [*folders, *up]

    def _sought(self, ahead: Sequence[Tool]) -> list[str]:
        """Return what may be looked for: a file that lies elsewhere, or any beginning of a name."""
        around = self._around
        everything = around.names()
        if ahead and ahead[0].moves:
            below = [file for folder in around.folders() for file in around.files_in(folder)]
            return [file for file in below if sum(file in name for name in everything) == 1]
        stems = [name.split(".")[0] for name in everything if looks_like_a_file(name)]
        return [pick(self._rng, stems or STEMS)]


def can_be_copied(text: str) -> bool:
    """Whether a text is short enough to be written again."""
    return 0 < len(text) <= _SHORT_CHARS and "\n" not in text
