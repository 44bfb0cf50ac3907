"""Keys on a real terminal, which gets its modes back however the process ends."""

import os
import pty
import subprocess
import sys
import termios

import pytest

from coevolve.screen.keys import Keys

LISTEN = """
import asyncio, fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from coevolve.launcher.interrupts import end
from coevolve.screen.keys import Keys

async def main():
    found = asyncio.Queue()
    keys = Keys(0, found.put_nowait)
    keys.listen()
    print("listening", keys.listening, flush=True)
    print("key", await found.get(), flush=True)
    if sys.argv[1] == "end":
        end("interrupted")
    keys.close()
    print("listening", keys.listening, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("way", ["close", "end"])
def test_a_key_needs_no_enter_and_the_terminal_gets_its_modes_back(way: str):
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    child = subprocess.Popen(
        [sys.executable, "-c", LISTEN, way],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "listening True\n"
    assert not termios.tcgetattr(theirs)[3] & (termios.ICANON | termios.ECHO)
    assert termios.tcgetattr(theirs)[3] & termios.ISIG
    os.write(ours, b"?")
    assert child.stdout.readline() == "key ?\n"
    if way == "close":
        assert child.stdout.readline() == "listening False\n"
    child.wait()
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


def test_without_a_terminal_no_key_is_read():
    reading, writing = os.pipe()
    keys = Keys(reading, lambda key: None)
    keys.listen()
    assert not keys.listening
    keys.close()
    os.close(reading)
    os.close(writing)
