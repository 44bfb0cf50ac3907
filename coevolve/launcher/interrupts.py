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
from collections.abc import Callable, Generator
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from coevolve.launcher import native_errors

if TYPE_CHECKING:
    import asyncio

    from coevolve.runs.stop import Stop

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
_exit = os._exit
"""Ends this process also in `coevolve.base.user_code.exits_raised`, which replaces `os._exit`."""


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
    stop: "Stop",
    interrupted: "asyncio.Event",
    stop_s: float,
    resume: str,
) -> None:
    """Let the first signal set both events, so that the run ends cleanly, and a later one end it.

    Signals within `ONE_STOP_S` of the first are the same request. If the run has not ended
    ``stop_s`` seconds after the first, end this process. SIGINT leaves it more time while it scores
    its newest version; SIGINT once more ends the scoring. A closed terminal is the first signal but
    never the second, because its shell may repeat SIGHUP. If this process was started with SIGHUP
    ignored, it stays ignored. ``resume`` is the command that continues the run, for the message.
    """
    asked = _Interrupts(stop, interrupted, stop_s, resume)
    for number in _SIGNALS:
        loop.add_signal_handler(number, asked.interrupt, number)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, asked.hang_up)


class _Interrupts:
    """What the signals to a run have asked for."""

    def __init__(
        self, stop: "Stop", interrupted: "asyncio.Event", stop_s: float, resume: str
    ) -> None:
        self._stop = stop
        self._interrupted = interrupted
        self._stop_s = stop_s
        self._how = f"continue with: {resume}, which repeats the current step"
        self._last_s = -math.inf

    def interrupt(self, number: int) -> None:
        """Stop the run; then end its scoring; then end this process."""
        if time.monotonic() - self._last_s < ONE_STOP_S:
            return
        self._last_s = time.monotonic()
        stop = self._stop
        if stop.is_set() and stop.scoring_s <= 0:
            end(f"interrupted; {self._how}")
        if stop.is_set() or number != signal.SIGINT:
            stop.at_once.set()
        stop.ask()
        self._interrupted.set()
        _after(self._stop_s, self._expire)

    def hang_up(self) -> None:
        """Stop the run without scores; do nothing if it stops already."""
        _discard_output()
        if not self._stop.is_set():
            self.interrupt(signal.SIGHUP)

    def _expire(self) -> None:
        """End this process, unless it still may score: then once that and a stop are over."""
        if (more_s := self._stop.scoring_s) > 0:
            _after(more_s + self._stop_s, self._expire)
            return
        end(f"the run did not end within cluster.stop_s = {self._stop_s:g} s; {self._how}")


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
    _after(seconds, partial(end, reason, code))


def _after(seconds: float, act: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()


def end(reason: str, code: int = INTERRUPTED) -> NoReturn:
    """End this process at once, with a message; nothing is cleaned up."""
    if os.isatty(1) and os.environ.get("TERM") != "dumb":
        with contextlib.suppress(OSError):  # the terminal has just closed
            os.write(1, SHOW_CURSOR)
    native_errors.write(f"coevolve: {reason}\n")
    _exit(code)


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
