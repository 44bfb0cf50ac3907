"""What the documentation of the tools tells an explorer that has never used them.

Read from names, types and words of BFCL's own tool documents: what each parameter wants, and what a
call leaves behind that a later call can use. Knows no task and no instruction.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from coevolve.environments.tools.toolsets import ToolDocument, tool_documents

Want = Literal[
    "file", "folder", "new_file", "new_folder", "target", "sought", "text", "word", "letter",
    "number", "default", "flag",
]  # fmt: skip
"""What to write for a parameter. ``target``: a folder, or a new name. ``sought``: the name, or the
beginning of a name, of something that may be anywhere. ``default``: what the document gives.
``flag``: nothing."""

_RULES: tuple[tuple[str, Want], ...] = (
    ("destination", "target"),
    ("new directory", "new_folder"),
    ("new file", "new_file"),
    ("pattern", "word"),
    ("the content to write", "text"),
    ("search for", "sought"),
    ("path to", "default"),
    ("file", "file"),
    ("director", "folder"),
    ("folder", "folder"),
    ("", "word"),
)
"""What a parameter wants whose name or description has the words; the first that fits decides."""

_LETTER = re.compile(r"'([a-z])'")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a tool."""

    name: str
    want: Want
    options: tuple[str, ...] = ()
    """The letters, or the default."""


@dataclass(frozen=True)
class Tool:
    """One tool, as far as its document tells."""

    name: str
    parameters: tuple[Parameter, ...]
    makes: Literal["file", "folder", ""]
    """What a call leaves in the working directory."""

    moves: bool
    """Whether a call changes the working directory."""

    shows: bool
    """Whether a call answers with the text of a file."""

    locates: bool
    """Whether a call answers with paths."""

    takes_away: bool
    """Whether its first argument is not there any more after a call."""

    def wants(self, *wants: Want) -> bool:
        """Whether some parameter wants one of these."""
        return any(parameter.want in wants for parameter in self.parameters)


@cache
def manual(class_name: str) -> Mapping[str, Tool]:
    """Return the tools of a simulator class by name, in the documents' order."""
    return {document.name: _tool(document) for document in tool_documents(class_name)}


def _tool(document: ToolDocument) -> Tool:
    deed = document.description.rsplit("Tool description:", 1)[-1].strip()
    described: Mapping[str, Mapping[str, Any]] = document.parameters["properties"]
    parameters = tuple(_parameter(name, about) for name, about in described.items())
    wants = {parameter.want for parameter in parameters}
    return Tool(
        name=document.name,
        parameters=parameters,
        makes="folder" if "new_folder" in wants else "file" if "new_file" in wants else "",
        moves=deed.startswith("Change"),
        shows=deed.startswith("Display"),
        locates=deed.startswith("Find"),
        takes_away=deed.startswith(("Remove", "Move")),
    )


def _parameter(name: str, about: Mapping[str, Any]) -> Parameter:
    words = f"{name} {about['description']}".lower()
    letters = tuple(dict.fromkeys(_LETTER.findall(words)))
    if about["type"] == "boolean":
        return Parameter(name, "flag")
    if about["type"] == "integer":
        return Parameter(name, "number")
    if len(letters) > 1:
        return Parameter(name, "letter", letters)
    want: Want = next(want for hint, want in _RULES if hint in words)
    return Parameter(name, want, (str(about.get("default", "")),) if want == "default" else ())
