"""Tells people what a command is doing while it takes long."""

import contextlib
import threading
import time
from collections.abc import Callable, Generator

FIRST_S = 2.0
MAX_S = 16.0
"""Seconds until the first line, and at most until the next one; the pause doubles in between."""

_works: list[Callable[[], str]] = []
"""What this process is doing, outermost first; texts that are empty say nothing."""


@contextlib.contextmanager
def doing(what: Callable[[], str]) -> Generator[None]:
    """Let ``what`` say what the block does, from another thread."""
    _works.append(what)
    try:
        yield
    finally:
        _works.remove(what)


@contextlib.contextmanager
def told(say: Callable[[str], None], first_s: float = FIRST_S) -> Generator[None]:
    """Let ``say`` show what the block is doing, and for how long, in a thread of its own."""
    ended, began_s = threading.Event(), time.monotonic()

    def tell() -> None:
        pause_s = first_s
        while not ended.wait(pause_s):
            with contextlib.suppress(ValueError):  # what was closed meanwhile
                if said := ",".join(filter(None, [each() for each in tuple(_works)])):
                    say(f"{said} ({time.monotonic() - began_s:.0f} s)")
            pause_s = min(2 * pause_s, MAX_S)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
