"""Interrupts of a process that has Ray, threads or native code to get out of.

A Python signal handler waits until native code returns; a wake-up file descriptor does not.
"""

import os
import signal
import sys
import threading

INTERRUPTED = 130

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def end_within(seconds: float, reason: str) -> None:
    """End this process after ``seconds``, unless it has ended by itself."""
    timer = threading.Timer(seconds, end, (reason,))
    timer.daemon = True
    timer.start()


def end(reason: str) -> None:
    """End this process at once, with a message; nothing is cleaned up."""
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"coevolve: {reason}\n".encode())
    os._exit(INTERRUPTED)


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
