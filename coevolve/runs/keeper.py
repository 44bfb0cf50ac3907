"""Keeps a run going above Ray: it starts the run's process again whenever that is lost.

The process that launches a run cannot outlive Ray's raylet or its control service, and may be
killed itself. The keeper loads neither Ray nor torch. It resumes after a loss, and gives up after
`TRIES` starts in a row without a step. Refusals, permanent errors, a clean stop and an interrupt
end it as well.
"""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from types import FrameType

from coevolve.runs import sessions

TRIES = 5
"""Starts in a row that may be lost before the run takes a step."""

LOOK_S = 0.2
MAX_PAUSE_S = 30.0

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Process = subprocess.Popen[bytes]


class Keeper:
    """Starts a run's process until the run ends, or makes no progress."""

    def __init__(
        self,
        start: Callable[[], Process],
        starts: Callable[[], int],
        progress: Callable[[], int],
        say: Callable[[str], None],
        *,
        lost: int,
    ) -> None:
        """Keep the process that ``start`` starts or resumes.

        ``starts`` returns the journal's sequence of the last start, and ``progress`` that of the
        last step or score; 0 if there is none. ``lost`` is the exit code of a loss.
        """
        self._start = start
        self._starts = starts
        self._progress = progress
        self._say = say
        self._lost = lost
        self._process: Process | None = None
        self._stopping = False

    def keep(self) -> int:
        """Return the exit code with which the run ended for good."""
        tries, since = 0, 0.0
        with self._signals_forwarded():
            while True:
                before = self._progress()
                code = self._one(since)
                if self._stopping or (code >= 0 and code != self._lost):
                    return code if code >= 0 else self._lost
                since = time.monotonic()
                tries = 1 if self._progress() > before else tries + 1
                if tries > TRIES:
                    self._say(f"gave up: {TRIES} resumptions in a row took no step")
                    return self._lost
                self._say(f"lost: {_what(code)}; resuming, {tries} of {TRIES} without a step")
                time.sleep(pause_s(tries))

    def _one(self, since: float) -> int:
        """Start the run and return its exit code; say when it is back. ``since`` is the loss."""
        first, step = self._starts(), self._progress()
        process = self._process = self._start()
        back = worked = since == 0.0
        while (code := _ended(process)) is None:
            if not back and self._starts() > first:
                back = True
                self._say(f"resumed {time.monotonic() - since:.1f} s after the loss")
            if back and not worked and self._progress() > step:
                worked = True
                self._say(f"took a step {time.monotonic() - since:.1f} s after the loss")
        sessions.kill_holders(process.pid)
        return code

    @contextlib.contextmanager
    def _signals_forwarded(self) -> Generator[None]:
        def forward(number: int, frame: FrameType | None) -> None:
            del frame
            self._stopping = True
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(number)

        ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        numbers = [each for each in FORWARDED if each != signal.SIGHUP or not ignored]
        before = {number: signal.signal(number, forward) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def pause_s(tries: int) -> float:
    """Return the seconds before the resumption of this number: none before the first."""
    return min(MAX_PAUSE_S, 2.0 ** (tries - 1)) if tries > 1 else 0.0


def _ended(process: Process) -> int | None:
    try:
        return process.wait(LOOK_S)
    except subprocess.TimeoutExpired:
        return None


def _what(code: int) -> str:
    """Return what an exit code says about the run's process."""
    if code < 0:
        return f"the run's process was ended by {signal.Signals(-code).name}"
    return "see the message above"
