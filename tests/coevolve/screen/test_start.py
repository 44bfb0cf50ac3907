"""The screen of a start: it comes before everything heavy, and shows each phase with its time."""

import io
import subprocess
import sys

import pytest
from rich.console import Console

from coevolve.base.terminal import Terminal
from coevolve.base.visible import UNSAFE
from coevolve.screen.start import StartScreen, draw_start
from tests.commands import ROOT
from tests.screens import plain

PHASES = (("load the libraries", 10.0), ("read the settings", 12.5), ("start Ray", 12.75))
HEAVY = ("ray", "torch", "transformers", "numpy", "structlog", "msgspec", "asyncio")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (30, 6)])
def test_each_phase_is_shown_with_its_seconds(size: tuple[int, int]):
    frame = draw_start("coevolve launch quickstart", PHASES, started=10.0, now=15.0, size=size)
    lines = plain(frame, size)
    assert lines[0].startswith("coevolve launch quickstart")
    assert [line.split()[-2:] for line in lines[1:]] == [["2.5", "s"], ["0.2", "s"], ["2.2", "s"]]
    assert [line.split()[0] for line in lines[1:3]] == ["\u2713"] * 2
    assert "starts, 0:05" in lines[0] or size[0] < 40


def test_a_low_terminal_shows_the_newest_phases():
    phases = tuple((f"phase {number}", float(number)) for number in range(30))
    lines = plain(draw_start("launch", phases, started=0.0, now=30.0, size=(80, 10)), (80, 10))
    assert len(lines) < 10
    assert "phase 29" in lines[-1]


def test_a_run_files_name_does_nothing_to_the_terminal():
    frame = draw_start("\x1b]0;x\x07\nrun", PHASES, started=0.0, now=1.0, size=(80, 24))
    lines = plain(frame, (80, 24))
    assert len(lines) == 4
    assert r"\u001b]0;x\u0007 run" in lines[0]
    assert not UNSAFE.search("".join(lines))


def test_a_terminal_without_unicode_gets_ascii():
    frame = draw_start("l\u00e4uft", PHASES, started=0.0, now=1.0, size=(80, 24), ascii_only=True)
    assert all(line.isascii() for line in plain(frame, (80, 24)))


def test_nothing_is_shown_where_lines_cannot_be_redrawn():
    shown = io.StringIO()
    with StartScreen(Console(file=shown), "launch") as screen:
        screen.begin("start Ray")
    assert not shown.getvalue()


def test_the_screen_is_gone_when_the_start_is_over():
    shown = io.StringIO()
    with StartScreen(Terminal(file=shown, force_terminal=True, width=80), "launch") as screen:
        screen.begin("start Ray")
    screen.close()
    assert shown.getvalue().endswith("\x1b[1A\x1b[2K")


def test_it_needs_no_heavy_library():
    code = "import sys, coevolve.screen.start; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert not set(HEAVY) & set(done.stdout.split())
