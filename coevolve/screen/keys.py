"""Keys that a person types while a screen is drawn, without echo and without waiting for Enter.

The terminal keeps its other modes, so Ctrl-C and Ctrl-Z do what they always do. `give_back` returns
the terminal's own modes, also in a process that ends at once.
"""

import asyncio
import contextlib
import os
import termios
import tty
from collections.abc import Callable
from typing import Any

MOST_BYTES = 64
"""Bytes that are read at a time."""

_given: dict[int, list[Any]] = {}
"""File descriptor -> modes of the terminal before it was listened to."""


class Keys:
    """Calls a function for each key, from the event loop that `listen` was called in."""

    def __init__(self, terminal: int, on_key: Callable[[str], None]) -> None:
        """Read from the file descriptor ``terminal``."""
        self._terminal = terminal
        self._on_key = on_key
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def listening(self) -> bool:
        """Whether keys are read."""
        return self._loop is not None

    def listen(self) -> None:
        """Begin, if it is a terminal and this process is in its foreground; needs a running loop.

        A process in the background that changes a terminal's modes would be stopped.
        """
        if self._loop is not None or not _is_ours(self._terminal):
            return
        with contextlib.suppress(termios.error, OSError):
            _given[self._terminal] = termios.tcgetattr(self._terminal)
            tty.setcbreak(self._terminal, termios.TCSANOW)
            loop = asyncio.get_running_loop()
            loop.add_reader(self._terminal, self._read)
            self._loop = loop

    def close(self) -> None:
        """Stop, and give the terminal back; a second call does nothing."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._terminal)
        self._loop = None
        give_back()

    def _read(self) -> None:
        try:
            typed = os.read(self._terminal, MOST_BYTES)
        except OSError:  # the terminal has closed
            typed = b""
        if not typed:
            self.close()
        for key in typed.decode("ascii", "ignore"):
            self._on_key(key)


def give_back() -> None:
    """Restore the modes of the terminals that were listened to."""
    while _given:
        terminal, modes = _given.popitem()
        with contextlib.suppress(termios.error, OSError):
            if _is_ours(terminal):
                termios.tcsetattr(terminal, termios.TCSANOW, modes)


def _is_ours(terminal: int) -> bool:
    try:
        return os.isatty(terminal) and os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
