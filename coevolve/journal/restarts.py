"""Whether the store's process may start once more, or its crashes are a loop.

A caller repeats its call to the next process, so a call that breaks the journal would break every
one. The file `FILE` in the journal's folder has the times of the starts and of the breaks of one
launch; a break is an unexpected exception that stopped the journal. Neither does the number of
records matter, because other callers may write some between two breaks, nor the age of the run:
rare failures never add up.

Not covered: a process that dies without such an exception, more slowly than the limit of starts.
"""

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog

from coevolve.base.durable_files import replace_file
from protocols.errors import JournalError

FILE = "restarts.json"

BREAKS = 8
WITHIN_S = 120.0
"""The run ends after `BREAKS` breaks within this time."""

STARTS = 60
STARTS_WITHIN_S = 300.0
"""The run also ends after `STARTS` starts within this time, whatever ended the processes. Kills
from outside that come faster than one in 5 s are no rare failures either."""

log = structlog.get_logger()


class _Past(msgspec.Struct):
    """The last starts and breaks, in seconds of the machine's monotonic clock."""

    starts: list[float] = []
    breaks: list[float] = []
    reason: str = ""
    """The last break's."""


class Restarts:
    """The starts and breaks of the store of one launch."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """``folder`` is the journal's."""
        self._file = folder / FILE
        self._clock = clock

    def begin(self, *, again: bool) -> None:
        """Count a start; ``again`` says whether it is one after the launch's first.

        Raises JournalError if the process should not start, because its crashes are a loop.
        """
        if not again:
            self._file.unlink(missing_ok=True)
            return
        past = self._read()
        past.starts = [*past.starts, self._clock()][-STARTS:]
        self._write(past)
        if _are_within(past.breaks, BREAKS, WITHIN_S):
            raise JournalError(
                f"the journal broke {BREAKS} times within {WITHIN_S:.0f} s, so the run ends; "
                f"last error: {past.reason}"
            )
        if _are_within(past.starts, STARTS, STARTS_WITHIN_S):
            raise JournalError(
                f"the store's process ended {STARTS} times within {STARTS_WITHIN_S:.0f} s, so the "
                "run ends; look for what kills it, such as a lack of memory, in the system's log"
            )

    def broke(self, reason: str) -> None:
        """Count a break."""
        past = self._read()
        past.breaks = [*past.breaks, self._clock()][-BREAKS:]
        past.reason = reason
        self._write(past)

    def _read(self) -> _Past:
        """Return what the file has; nothing if it is missing or damaged."""
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_Past)
        except (OSError, msgspec.MsgspecError):
            return _Past()

    def _write(self, past: _Past) -> None:
        """Write the file, unless there is no room."""
        try:
            replace_file(self._file, msgspec.json.encode(past))
        except OSError as error:
            log.warning("restart_not_counted", reason=str(error))


def _are_within(times: list[float], most: int, within_s: float) -> bool:
    return len(times) >= most and times[-1] - times[-most] < within_s
