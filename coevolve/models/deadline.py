"""Ends Python code of others, such as a chat template's loops, after a time."""

import contextlib
import ctypes
import threading
from collections.abc import Generator


@contextlib.contextmanager
def within(seconds: float) -> Generator[None]:
    """Raise TimeoutError in the block, if it takes longer; it works in any thread.

    What is covered: Python code, which compiled templates are. What is not covered: a single call
    of native code, such as a regular expression of a tokenizer, and memory.
    """
    caller, lock, is_done = threading.get_ident(), threading.Lock(), False

    def end() -> None:
        with lock:
            if not is_done:
                raised = ctypes.py_object(TimeoutError)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(caller), raised)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            is_done = True
        timer.cancel()
