"""Tables and lines on a terminal hold Rich's own escape sequences and nobody else's."""

import ast
import io
import re
from pathlib import Path

from rich.table import Table
from rich.text import Text

from coevolve.base.terminal import Terminal
from coevolve.base.visible import UNSAFE, as_visible

ROOT = Path(__file__).parents[3]
HOSTILE = "\x1b]52;c;Z2l0\x07[link=http://x]:bomb:\u202e\x9b2J\x7f\u200b"
STYLES = re.compile(r"\x1b\[[0-9;]*m")


def drawn(*parts: object) -> str:
    shown = io.StringIO()
    terminal = Terminal(file=as_visible(shown), force_terminal=True, width=120, highlight=False)
    terminal.print(*parts)
    return shown.getvalue()


def test_text_in_a_table_is_shown_and_not_obeyed():
    table = Table(title=HOSTILE, min_width=100)
    table.add_column(HOSTILE)
    table.add_row(HOSTILE)
    table.add_row(Text(HOSTILE, style="bold red"))
    shown = drawn(HOSTILE, table)
    assert STYLES.search(shown)
    assert not UNSAFE.search(STYLES.sub("", shown))
    assert "[link=http://x]:bomb:" in shown
    assert shown.count(r"\u001b]52;c;Z2l0\u0007") >= 4  # lines may break inside


def test_a_table_keeps_its_columns_when_its_text_grows():
    table = Table()
    table.add_column("a")
    table.add_row("\x1b" * 3)
    lines = [STYLES.sub("", line) for line in drawn(table).splitlines()]
    assert len({len(line) for line in lines}) == 1


def test_nothing_draws_with_another_console():
    for path in (ROOT / "coevolve").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "Console", path
