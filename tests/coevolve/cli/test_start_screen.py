"""A command in a terminal says at once that it starts, and leaves the terminal as it found it."""

import os
import signal
import subprocess
import sys

from tests.commands import ROOT

SHOW_CURSOR, HIDE_CURSOR = b"\x1b[?25h", b"\x1b[?25l"
TITLE = b"coevolve launch nosuch"


def in_terminal(*words: str, interrupted: bool = False) -> tuple[bytes, int]:
    """Run a command in a terminal, and interrupt it at its first output, or do not.

    Return all output and the exit code.
    """
    master, slave = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "coevolve", *words],
        cwd=ROOT,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    said = b""
    try:
        while True:
            said += os.read(master, 65536)
            if interrupted and TITLE in said:
                process.send_signal(signal.SIGINT)
                interrupted = False
    except OSError:  # no process has the terminal any more
        return said, process.wait(60)
    finally:
        os.close(master)


def test_the_start_is_shown_and_gone_before_an_error():
    said, code = in_terminal("launch", "nosuch")
    assert code == 1
    start, _, rest = said.rpartition(SHOW_CURSOR)
    assert start.startswith(HIDE_CURSOR)
    assert b"load the libraries" in start
    assert rest.endswith(b"or give the path of your own\r\n")
    assert TITLE not in rest


def test_an_interrupted_start_shows_the_cursor_again():
    said, code = in_terminal("launch", "nosuch", interrupted=True)
    assert code == 130
    assert said.endswith(SHOW_CURSOR + b"\r\ncoevolve: interrupted before the run began\r\n")
