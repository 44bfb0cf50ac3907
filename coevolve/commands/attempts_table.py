"""Shows how an author did on tasks: on a terminal, and as a file of conversations to read."""

import sys
from pathlib import Path

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from coevolve.base.terminal import Terminal
from coevolve.commands.attempts import Attempts
from coevolve.environments.findings import counted
from protocols.errors import RunError


def attempts_table(found: Attempts, conversations: Path | None) -> RenderableType:
    """Return the tables of scores and failures; ``conversations`` is the file to read."""
    scores = Table(title=f"{found.author}: {counted(found.attempts, 'attempt')} at each task")
    scores.add_column("tasks that use")
    several = [f"pass@{found.attempts}, %"] if found.attempts > 1 else []
    for column in ("tasks", "pass@1, %", "std error", *several):
        scores.add_column(column, justify="right")
    for row in found.rows:
        shares = (row.pass_1.mean, row.pass_1.std_error, row.pass_k)[: 2 + len(several)]
        scores.add_row(row.label, str(row.tasks), *(f"{100 * each:.1f}" for each in shares))
    said = [f"{count} failed: {reason}" for reason, count in found.failures.items()]
    if conversations is not None:
        said.append(f"conversations to read: {conversations}")
    return Group(scores, *map(Text, said))


def write_conversations(found: Attempts, path: Path) -> None:
    """Write all conversations as text, failed ones first. Raises RunError."""
    members = sorted(found.members, key=lambda each: each.succeeded)
    parts = [
        f"=== {each.task_id} ({each.split}), attempt {each.attempt}: "
        f"{'succeeded' if each.succeeded else f'failed: {each.reason}'}\n\n{each.text}\n"
        for each in members
    ]
    try:
        path.write_text("\n".join(parts), errors="replace")
    except OSError as error:
        raise RunError(f"{path}: needs to be a file that can be written: {error}") from error


def show(terminal: Terminal, scored: Attempts, conversations: Path) -> None:
    """Print how an author did, and write the conversations. Raises RunError."""
    write_conversations(scored, conversations)
    terminal.print(attempts_table(scored, conversations))


def print_line(terminal: Terminal, line: str) -> None:
    """Print one line."""
    terminal.print(line)


def answer(terminal: Terminal, scored: Attempts, *, as_json: bool) -> None:
    """Print how an author did, for programs or for people; for these, write the conversations."""
    if as_json:
        sys.stdout.write(msgspec.json.encode(scored).decode() + "\n")
        return
    word = "".join(each if each.isalnum() else "_" for each in scored.author)
    show(terminal, scored, Path(f"{word}.attempts.txt"))
