"""What SIGINT, SIGTERM and SIGHUP do to a command; the last of these functions it called counts.

- `raise_when_interrupted`: any command.
- `end_at_once`: a run's start, and `coevolve attach`, which load Ray. A Python signal handler waits
  until native code returns; a wake-up file descriptor does not.
- `stop_when_interrupted`: a run. Only a run heeds SIGHUP, which a closed terminal sends: other
  commands end at once.
"""

import contextlib
import math
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Generator
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from coevolve.launcher import native_errors
from coevolve.screen import keys

if TYPE_CHECKING:
    import asyncio

INTERRUPTED = 130

LOST = 75
"""Exit code of a run that a resumption continues: ``EX_TEMPFAIL`` of sysexits.h."""

PATIENCE_S = 8.0
"""Seconds that an interrupted command may take to end by itself."""

ONE_STOP_S = 0.5
"""Seconds within which several signals are one request to stop: `timeout` and batch systems signal
a process and then its whole group."""

SHOW_CURSOR = b"\x1b[?25h\n"
"""Shows the cursor, which a screen that is redrawn hides, on a new line."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def raise_when_interrupted() -> None:
    """Raise KeyboardInterrupt at the first signal; then end within `PATIENCE_S`.

    While a module is imported, the first signal ends the process at once: some modules replace the
    exception by another one, or drop it. In other threads than the main one, do nothing.
    """

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        del number
        if _imports(frame):
            end("interrupted")
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        end_within(PATIENCE_S, "interrupted")
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            signal.signal(number, interrupt)


def _imports(frame: FrameType | None) -> bool:
    """Return whether a module is being imported in a frame or its callers."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def stop_when_interrupted(
    loop: "asyncio.AbstractEventLoop",
    stop: "asyncio.Event",
    interrupted: "asyncio.Event",
    stop_s: float,
) -> None:
    """Let the first signal set both events, so that the run ends cleanly, and a later one end it.

    Signals within `ONE_STOP_S` of the first are the same request. If the run has not ended
    ``stop_s`` seconds after the first, end this process. A closed terminal is the first signal but
    never the second, because its shell may repeat SIGHUP. If this process was started with SIGHUP
    ignored, it stays ignored.
    """
    first_s = -math.inf

    def interrupt() -> None:
        nonlocal first_s
        if time.monotonic() - first_s < ONE_STOP_S:
            return
        if stop.is_set():
            end("interrupted; when it is resumed, the run repeats the current step")
        first_s = time.monotonic()
        stop.set()
        interrupted.set()
        end_within(
            stop_s,
            f"the run did not end within cluster.stop_s = {stop_s:g} s; when it is resumed, it "
            "repeats the current step",
        )

    def hang_up() -> None:
        _discard_output()
        if not stop.is_set():
            interrupt()

    for number in _SIGNALS:
        loop.add_signal_handler(number, interrupt)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, hang_up)


@contextlib.contextmanager
def handlers_kept() -> Generator[None]:
    """Restore the signal handlers after the block, because Ray replaces them.

    In other threads than the main one, do nothing.
    """
    in_main = threading.current_thread() is threading.main_thread()
    kept = {number: signal.getsignal(number) for number in _SIGNALS} if in_main else {}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _discard_output() -> None:
    """Discard all further output that does not go to a file: a closed terminal refuses it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for output in (1, 2):
        if not stat.S_ISREG(os.fstat(output).st_mode):
            os.dup2(nowhere, output)
    os.close(nowhere)


def end_within(seconds: float, reason: str, code: int = INTERRUPTED) -> None:
    """End this process after ``seconds``, unless it has ended by itself."""
    timer = threading.Timer(seconds, end, (reason, code))
    timer.daemon = True
    timer.start()


def end(reason: str, code: int = INTERRUPTED) -> NoReturn:
    """End this process at once, with a message; nothing is cleaned up."""
    keys.give_back()
    if os.isatty(1) and os.environ.get("TERM") != "dumb":
        with contextlib.suppress(OSError):  # the terminal has just closed
            os.write(1, SHOW_CURSOR)
    native_errors.write(f"coevolve: {reason}\n")
    os._exit(code)


def end_after_output() -> NoReturn:
    """End this process with exit code 0 as soon as its output is written; clean nothing up."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def end_at_once(reason: str) -> None:
    """Let every SIGINT and SIGTERM from now on end this process, even amid native code.

    An event loop that adds signal handlers takes the signals over. Call it in the main thread.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    for number in _SIGNALS:
        signal.signal(number, lambda number, frame: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def wait() -> None:
        while received := os.read(reading, 1):
            if received[0] in _SIGNALS:
                end(reason)

    threading.Thread(target=wait, name="interrupts", daemon=True).start()
