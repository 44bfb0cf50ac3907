"""What the pages say of `coevolve.loop`: the table of messages, and README's picture.

python -m tests.loop_tables          # writes both into their pages
"""

from collections import defaultdict
from typing import get_args

from coevolve.environments.open_parts import PartSpec
from coevolve.loop import AROUND, LOOP
from protocols.journal import Message
from tests.commands import ROOT

KINDS: tuple[type[Message], ...] = get_args(Message)
EVERYONE = (*LOOP, *AROUND)
ONLY_KEPT = "commands and report"
ALL = "all parts"

PAGES = {
    "protocols/__init__.py": ("| message", "\n\nCalls that leave no record"),
    "README.md": ("    curriculum  --", "\n\nBuilt in are"),
}
"""Page -> how its generated text begins, and what follows it."""


def givers(kind: type[Message]) -> list[str]:
    """Return who writes records of this kind."""
    return [party.name for party in EVERYONE if kind in party.gives]


def takers(kind: type[Message]) -> list[str]:
    """Return who takes or reads records of this kind, besides commands and report."""
    return [party.name for party in EVERYONE if kind in (*party.takes, *party.reads)]


def message_table() -> str:
    """Return the rows: each kind of record, who gives it and who takes or reads it."""
    head = ("message", "from", "to")
    rows = [
        (f"`{kind.__name__}`", ", ".join(givers(kind)), ", ".join(takers(kind)) or ONLY_KEPT)
        for kind in KINDS
    ]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(3)]

    def line(row: tuple[str, ...]) -> str:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        return f"| {' | '.join(cells)} |"

    rule = f"|{'|'.join('-' * (width + 2) for width in widths)}|"
    return "\n".join((line(head), rule, *map(line, rows)))


def uses(part: PartSpec, kind: type[Message]) -> bool:
    """Return whether a part has to do with records of this kind."""
    return kind in (*part.takes, *part.reads, *part.gives)


def picture() -> str:
    """Return which records each part gives to parts that answer them, or to all parts."""
    lines: list[str] = []
    for part in LOOP:
        to: defaultdict[str, list[str]] = defaultdict(list)
        for kind in part.gives:
            others = [each.name for each in LOOP if kind in each.takes]
            if all(uses(each, kind) for each in LOOP):
                others = [ALL]
            if others:
                to[", ".join(others)].append(kind.__name__)
        arrows = [f"--{', '.join(kinds)}--> {others}" for others, kinds in to.items()]
        lines.append(f"    {part.name:<11} {'; '.join(arrows)}")
    return "\n".join(lines)


def written() -> dict[str, tuple[str, str]]:
    """Return, by page, the text that it has and the one that it should have."""
    texts = {"protocols/__init__.py": message_table(), "README.md": picture()}
    pages: dict[str, tuple[str, str]] = {}
    for page, (begins, follows) in PAGES.items():
        text = (ROOT / page).read_text()
        start = text.index(begins)
        end = text.index(follows, start)
        pages[page] = (text, text[:start] + texts[page] + text[end:])
    return pages


def main() -> None:
    """Write the generated texts into their pages."""
    for page, (_, text) in written().items():
        (ROOT / page).write_text(text)


if __name__ == "__main__":
    main()
