"""Finds the commands and code blocks of the project's pages."""

import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
FOLDER = ROOT / "coevolve" / "docs"
PAGES = (README, *sorted(FOLDER.glob("*.md")))
RUN_FILES = (
    *sorted((ROOT / "configs").glob("*.yaml")),
    ROOT / "coevolve" / "environments" / "example" / "run.yaml",
)
TEXTS = (
    *PAGES,
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "designs" / "README.md",
    *RUN_FILES,
)
"""Every text that tells commands: pages, and the comments of run files."""

SAVED = {
    "mine.yaml": (README, "name: mine"),
    "keyvalue.py": (README, "class KeyValue"),
    "keyvalue.jsonl": (README, '{"id": "put-1"'),
    "rloo.py": (FOLDER / "learning.md", '"""RLOO'),
    "letters.py": (FOLDER / "environments.md", "class Letters"),
    "letters.jsonl": (FOLDER / "environments.md", '{"id": "after-a"'),
    "letters.yaml": (FOLDER / "environments.md", "name: letters"),
    "notes.py": (FOLDER / "mcp.md", "from mcp.server"),
    "notes.jsonl": (FOLDER / "mcp.md", '{"id": "count"'),
    "notes.yaml": (FOLDER / "mcp.md", "name: notes"),
    "agent.py": (FOLDER / "programs.md", "import json"),
    "agent.jsonl": (FOLDER / "programs.md", '{"id": "a", "prompt"'),
    "agent.yaml": (FOLDER / "programs.md", "name: agent"),
}
"""File that the pages tell to save -> its page, and the beginning of its block there."""

BEGINNING = re.compile(r"(?:\.venv/bin/)?(?:python -m [\w.]+|coevolve|make|pytest) ")
INLINE = re.compile(r"`([^`]+)`")
BLOCK = re.compile(r"(?:^    .*\n|^\n+(?=    ))+", re.MULTILINE)
IN_COMMENT = re.compile(r"^# (?:  |.*: )(coevolve (?:.*\\\n# {4,})*.*)$", re.MULTILINE)


class Command(NamedTuple):
    """A command line of a page."""

    file: Path
    line: int
    words: tuple[str, ...]

    def __str__(self) -> str:
        """Return where it stands, and the command."""
        return f"{self.file.relative_to(ROOT)}:{self.line}: {shlex.join(self.words)}"


class Block(NamedTuple):
    """An indented block of a page, without its indentation."""

    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        """Return where it stands."""
        return f"{self.file.relative_to(ROOT)}:{self.line}"

    @property
    def is_python(self) -> bool:
        """Whether it is a piece of Python."""
        return bool(re.search(r"^(?:import|from|class|async def|def) ", self.text, re.MULTILINE))

    @property
    def is_run_file(self) -> bool:
        """Whether it is a piece of a run file."""
        return not self.is_python and bool(re.match(r"[a-z_]+:(?:\s|$)", self.text))


def commands(file: Path) -> Iterator[Command]:
    """Yield the commands in blocks, in inline code, and in the comments of run files."""
    text = file.read_text()
    if file.suffix == ".yaml":
        for found in IN_COMMENT.finditer(text):
            yield from _command(file, _line(text, found.start()), re.sub(r"\\\n#", "", found[1]))
        text = "\n".join(re.sub(r"^#", "", line) for line in text.splitlines())
    else:
        for block in blocks(file):
            for number, said in _joined(block):
                yield from _command(file, number, said)
        text = BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)
    for found in INLINE.finditer(text):
        yield from _command(file, _line(text, found.start()), " ".join(found[1].split()))


def blocks(file: Path) -> Iterator[Block]:
    """Yield the indented blocks of a page."""
    text = file.read_text()
    for found in BLOCK.finditer(text):
        blank = len(found[0]) - len(found[0].lstrip("\n"))
        yield Block(file, _line(text, found.start() + blank), textwrap.dedent(found[0]).strip("\n"))


def block_of(page: Path, beginning: str) -> Block:
    """Return the block of a page that begins in a certain way."""
    return next(block for block in blocks(page) if block.text.startswith(beginning))


def write_files(folder: Path) -> None:
    """Write the files that the pages tell to save."""
    for name, (page, beginning) in SAVED.items():
        (folder / name).write_text(block_of(page, beginning).text)


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _joined(block: Block) -> Iterator[tuple[int, str]]:
    """Yield the block's lines with their numbers, continued ones in one piece."""
    said, first = "", block.line
    for number, line in enumerate(block.text.splitlines(), start=block.line):
        first = first if said else number
        said += f" {line.strip()}"
        if said.endswith("\\"):
            said = said[:-1]
        else:
            yield first, said.strip()
            said = ""


def _command(file: Path, line: int, said: str) -> Iterator[Command]:
    if BEGINNING.match(f"{said} ") and " " in said:
        words = shlex.split(said, comments=True)
        yield Command(file, line, tuple(words[: words.index(">")] if ">" in words else words))
