"""The source of a part's `PartStatus`."""

import os
import time
from pathlib import Path

import psutil

from protocols.control import PartStatus


class StatusReporter:
    """Stores what a part waits for, since when, and its last error."""

    def __init__(self, part: str) -> None:
        self.part = part
        self._waits_for = "being started"
        self._since = time.monotonic()
        self.policy_version = -1
        self.done = 0
        self.last_error = ""

    def waits_for(self, what: str) -> None:
        """Set what the part does or waits for; the clock restarts if it changed."""
        if what != self._waits_for:
            self._waits_for = what
            self._since = time.monotonic()

    def report(self, mailbox: int) -> PartStatus:
        """Return the status, with ``mailbox`` records in progress."""
        return PartStatus(
            part=self.part,
            pid=os.getpid(),
            waits_for=self._waits_for,
            since_s=time.monotonic() - self._since,
            mailbox=mailbox,
            done=self.done,
            policy_version=self.policy_version,
            last_error=self.last_error,
            cpu_s=time.process_time(),
            memory_bytes=psutil.Process().memory_info().rss,
            peak_bytes=peak_bytes(),
        )


def peak_bytes() -> int:
    """Return the largest resident memory that this process ever had, in bytes.

    Not ``ru_maxrss``: a program begins with that of the process that started it.
    """
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])
